-- How a job fares. ?1 seq.
SELECT l.seq, l.lane, l.phase, l.nprio, l.run_at, l.attempt, l.max_attempts, l.deliveries, l.max_deliveries, l.fence, l.settled, l.began, l.until, l.started_at, l.finished_at, l.worker, l.last_error, l.hold, l.ttl, l.cool_down, l.taken_at, l.expires_at, l.generation FROM life l WHERE l.seq = ?1
