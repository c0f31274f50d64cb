-- A job waits. ?1 lane, ?2 negated priority, ?3 run_at, ?4 seq.
INSERT INTO ready (lane, nprio, run_at, seq) VALUES (?1, ?2, ?3, ?4)
