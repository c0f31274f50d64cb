-- An error of a job. ?1 seq, ?2 n.
SELECT error, ended, attempt FROM attempt WHERE seq = ?1 AND n = ?2
