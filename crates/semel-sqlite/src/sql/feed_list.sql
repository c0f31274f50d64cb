-- Reads a feed, newest first. ?1 namespace, ?2 feed, ?3 before which n, ?4 how many.
SELECT n, at, body FROM feed WHERE ns = ?1 AND name = ?2 AND n < ?3 ORDER BY n DESC LIMIT ?4
