-- Notes that an effect is being carried out in this transaction. $1: origin, $2: step, $3: job, $4: fence.
-- Gives a row if it was not carried out before.
INSERT INTO semel_inbox (origin, step, job, fence) VALUES ($1, $2, $3, $4)
ON CONFLICT (origin, step) DO NOTHING
RETURNING 1
