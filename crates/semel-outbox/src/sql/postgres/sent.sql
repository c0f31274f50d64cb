-- Marks events as sent, in the caller's transaction. $1: places, $2: the jobs that have them.
UPDATE semel_outbox o SET sent_at = clock_timestamp(), job = m.job, error = NULL
FROM unnest($1::bigint[], $2::text[]) AS m (seq, job)
WHERE o.seq = m.seq AND o.sent_at IS NULL
