-- Owners under a prefix, newest first, with what admission has to know of them. ?1 prefix.
SELECT l.seq, l.lane, l.phase, l.nprio, l.run_at, l.attempt, l.max_attempts, l.deliveries, l.max_deliveries, l.fence, l.settled, l.began, l.until, l.started_at, l.finished_at, l.worker, l.last_error, l.hold, l.ttl, l.cool_down, l.taken_at, l.expires_at, l.generation, j.id, j.enqueued_at, j.input_digest, j.input IS NULL, j.digest
FROM key k JOIN life l ON l.seq = coalesce(k.seq, k.generation) JOIN job j ON j.seq = l.seq
WHERE k.h = ?1 ORDER BY k.generation DESC
