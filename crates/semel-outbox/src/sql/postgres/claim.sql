-- Takes events that are due, in the caller's transaction. What another relay has taken is passed over, and so is
-- everything behind it in its partition; likewise behind an event that waits to be tried again. A time that lies further
-- ahead than any relay writes one is of a clock that was set back since, and holds nothing up.
-- $1: at most so many. Gives the events in their order.
WITH taken AS MATERIALIZED (
    SELECT o.seq, o.id, o.task, o.queue, o.partition, o.input::text AS input, o.headers::text AS headers, o.priority,
           o.attempts
    FROM semel_outbox o
    WHERE o.sent_at IS NULL AND o.parked_at IS NULL
      AND (o.due_at <= now() OR o.due_at > now() + interval '1 hour')
      AND (o.partition IS NULL OR NOT EXISTS (
          SELECT 1 FROM semel_outbox b
          WHERE b.sent_at IS NULL AND b.parked_at IS NULL AND b.attempts > 0
            AND b.partition = o.partition AND b.seq < o.seq
            AND b.due_at > now() AND b.due_at <= now() + interval '1 hour'))
    ORDER BY o.seq
    LIMIT $1
    FOR UPDATE OF o SKIP LOCKED
), last AS (
    SELECT partition, max(seq) AS seq FROM taken WHERE partition IS NOT NULL GROUP BY partition
), elsewhere AS (
    SELECT b.partition, min(b.seq) AS seq
    FROM last JOIN semel_outbox b ON b.partition = last.partition AND b.seq < last.seq
    WHERE b.sent_at IS NULL AND b.parked_at IS NULL AND b.partition IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM taken WHERE taken.seq = b.seq)
    GROUP BY b.partition
)
SELECT taken.seq, taken.id, taken.task, taken.queue, taken.partition, taken.input, taken.headers, taken.priority,
       taken.attempts
FROM taken LEFT JOIN elsewhere ON elsewhere.partition = taken.partition
WHERE elsewhere.seq IS NULL OR taken.seq < elsewhere.seq
ORDER BY taken.seq
