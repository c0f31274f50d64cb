-- Forgets a feed. ?1 namespace, ?2 feed.
DELETE FROM feed WHERE ns = ?1 AND name = ?2
