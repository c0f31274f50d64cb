-- An absorbed submission can be found by its token. What its token led to since, a job or a newer entry, stays.
INSERT INTO token (token, ref) VALUES (?, ?) ON CONFLICT (token) DO UPDATE SET ref = excluded.ref WHERE excluded.ref < ref AND ref < 0
