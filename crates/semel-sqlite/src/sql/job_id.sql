-- The id of a job. ?1 seq.
SELECT id FROM job WHERE seq = ?1
