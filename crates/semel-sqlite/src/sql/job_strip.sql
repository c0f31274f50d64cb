-- Only a stub is left of a job. ?1 seq.
UPDATE job SET input = NULL, headers = NULL, meta = NULL WHERE seq = ?1
