-- Forgets the oldest entries. ?1 namespace, ?2 feed, ?3 up to which n.
DELETE FROM feed WHERE ns = ?1 AND name = ?2 AND n <= ?3
