-- Whether only a stub is left. ?1 seq.
SELECT check_at FROM stub WHERE seq = ?1
