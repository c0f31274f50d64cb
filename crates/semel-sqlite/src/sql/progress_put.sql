-- How far a job is. ?1 seq, ?2 progress.
INSERT INTO progress (seq, progress) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET progress = excluded.progress
