-- Removes events that were sent before a moment, some at a time; never any other. $1: age in milliseconds, $2: how many.
DELETE FROM semel_outbox WHERE seq IN (
    SELECT seq FROM semel_outbox
    WHERE sent_at IS NOT NULL AND sent_at < clock_timestamp() - $1::bigint * interval '1 millisecond'
    ORDER BY sent_at LIMIT $2
) AND sent_at IS NOT NULL
