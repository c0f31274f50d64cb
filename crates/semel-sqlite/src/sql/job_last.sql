-- The newest job.
SELECT max(seq) FROM job
