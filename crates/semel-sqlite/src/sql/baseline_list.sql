-- Baselines of a namespace. ?1 namespace.
SELECT b.lane, b.counts FROM baseline b JOIN lane a ON a.lane = b.lane WHERE a.ns = ?1
