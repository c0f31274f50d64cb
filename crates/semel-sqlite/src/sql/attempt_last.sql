-- The number of the last recorded delivery. ?1 seq.
SELECT max(n) FROM attempt WHERE seq = ?1
