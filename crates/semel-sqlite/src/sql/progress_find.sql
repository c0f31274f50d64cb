-- How far a job is. ?1 seq.
SELECT progress FROM progress WHERE seq = ?1
