-- What a job gave. ?1 seq, ?2 output.
INSERT INTO output (seq, output) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET output = excluded.output
