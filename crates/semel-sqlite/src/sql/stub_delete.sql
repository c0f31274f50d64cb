-- A stub is gone. ?1 seq.
DELETE FROM stub WHERE seq = ?1
