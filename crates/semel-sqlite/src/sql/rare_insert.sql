-- A job comes into a rare phase. ?1 phase, ?2 lane, ?3 seq.
INSERT INTO rare (phase, lane, seq) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
