-- Events that were given up, oldest first. $1: at most so many.
SELECT id, task, partition, attempts::bigint AS attempts, error
FROM semel_outbox WHERE parked_at IS NOT NULL ORDER BY seq LIMIT $1
