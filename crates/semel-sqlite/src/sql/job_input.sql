-- The input of a job. ?1 seq.
SELECT input FROM job WHERE seq = ?1
