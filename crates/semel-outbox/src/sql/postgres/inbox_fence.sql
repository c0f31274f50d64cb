-- Lets a delivery in if it is the newest that has been here, and makes others of the job wait until it has committed.
-- $1: job, $2: fence. Gives a row if it is let in.
INSERT INTO semel_inbox_fence (job, fence) VALUES ($1, $2)
ON CONFLICT (job) DO UPDATE SET fence = excluded.fence, at = clock_timestamp()
    WHERE semel_inbox_fence.fence <= excluded.fence
RETURNING fence
