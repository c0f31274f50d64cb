-- Gives events up until a person has looked at them. $1: places, $2: errors.
UPDATE semel_outbox o SET attempts = o.attempts + 1, error = m.error, parked_at = clock_timestamp()
FROM unnest($1::bigint[], $2::text[]) AS m (seq, error)
WHERE o.seq = m.seq AND o.sent_at IS NULL
