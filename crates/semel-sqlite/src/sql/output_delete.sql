-- Forgets what a job gave. ?1 seq.
DELETE FROM output WHERE seq = ?1
