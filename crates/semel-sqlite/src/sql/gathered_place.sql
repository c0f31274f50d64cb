-- A job waits.
INSERT OR ROLLBACK INTO ready (lane, nprio, run_at, seq) VALUES (?, ?, ?, ?)
