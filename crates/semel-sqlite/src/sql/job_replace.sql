-- A newer submission's content goes into a job. ?1 seq, ?2 input, ?3 headers, ?4 meta, ?5 timeout, ?6 input digest.
UPDATE job SET input = ?2, headers = ?3, meta = ?4, timeout = ?5, input_digest = ?6 WHERE seq = ?1
