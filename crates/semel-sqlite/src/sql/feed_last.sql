-- The number of the last entry. ?1 namespace, ?2 feed.
SELECT max(n) FROM feed WHERE ns = ?1 AND name = ?2
