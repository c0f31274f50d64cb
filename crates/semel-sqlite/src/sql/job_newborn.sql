-- Jobs above a floor, newest first, and how those fared at birth that are not entered yet. ?1 the floor.
SELECT seq, birth, id, enqueued_at, digest, input_digest FROM job WHERE seq > ?1 ORDER BY seq DESC
