-- Remembers what came of a submission, unless it is known. ?1 token, ?2 ref. changes() = 0: known.
INSERT INTO token (token, ref) VALUES (?1, ?2) ON CONFLICT DO NOTHING
