-- Notes that events were not taken and when to try again. $1: places, $2: errors, $3: delays in milliseconds.
UPDATE semel_outbox o
SET attempts = o.attempts + 1, error = m.error, due_at = clock_timestamp() + m.delay * interval '1 millisecond'
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS m (seq, error, delay)
WHERE o.seq = m.seq AND o.sent_at IS NULL
