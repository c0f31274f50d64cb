-- Forgets the deliveries of a job. ?1 seq.
DELETE FROM attempt WHERE seq = ?1
