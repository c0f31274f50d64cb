-- How a new job fares. Values in the order of the columns.
INSERT INTO life (seq, lane, phase, nprio, run_at, attempt, max_attempts, deliveries, max_deliveries, fence, settled, began, until, started_at, finished_at, worker, last_error, hold, ttl, cool_down, taken_at, expires_at, generation)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)
