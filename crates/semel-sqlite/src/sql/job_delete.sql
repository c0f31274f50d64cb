-- A job is gone. ?1 seq.
DELETE FROM job WHERE seq = ?1
