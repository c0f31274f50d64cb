-- How a job fares. A row that is there already is replaced, by the table's own rule.
INSERT INTO life (seq, lane, phase, nprio, run_at, attempt, max_attempts, deliveries, max_deliveries, fence, settled, began, until, started_at, finished_at, worker, last_error, hold, ttl, cool_down, taken_at, expires_at, generation) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
