-- What a job gave. ?1 seq.
SELECT output FROM output WHERE seq = ?1
