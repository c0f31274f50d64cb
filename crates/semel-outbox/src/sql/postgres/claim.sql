-- Takes events that are due, in the caller's transaction. What another relay has taken is passed over; what is behind it
-- in its partition is given with a mark, for the caller to leave alone. An event that waits to be tried again holds back
-- those behind it. A time that lies further ahead than any relay writes one is of a clock that was set back since, and
-- holds nothing up.
-- $1: at most so many, $2: behind this place, $3: leaving out these partitions, $4: places the caller has taken already.
-- Gives the events in their order.
--
-- Each part is worked out once, however few rows the planner expects: statistics are of the time when nothing waited.
WITH taken AS MATERIALIZED (
    SELECT o.seq, o.id, o.task, o.queue, o.partition, o.input::text AS input, o.headers::text AS headers, o.priority,
           o.attempts
    FROM semel_outbox o
    WHERE o.sent_at IS NULL AND o.parked_at IS NULL
      AND o.seq > 0 AND o.seq > $2::bigint
      AND (o.due_at <= now() OR o.due_at > now() + interval '1 hour')
      AND (o.partition IS NULL OR o.partition <> ALL ($3::text[]) AND NOT EXISTS (
          SELECT 1 FROM semel_outbox b
          WHERE b.sent_at IS NULL AND b.parked_at IS NULL AND b.attempts > 0
            AND b.partition = o.partition AND b.seq < o.seq
            AND b.due_at > now() AND b.due_at <= now() + interval '1 hour'))
    ORDER BY o.seq
    LIMIT $1
    FOR UPDATE OF o SKIP LOCKED
), last AS MATERIALIZED (
    SELECT partition, max(seq) AS seq, array_agg(seq) AS mine FROM taken WHERE partition IS NOT NULL GROUP BY partition
), elsewhere AS MATERIALIZED (
    SELECT last.partition, (
        SELECT b.seq FROM semel_outbox b
        WHERE b.partition = last.partition AND b.seq < last.seq
          AND b.seq <> ALL (last.mine) AND b.seq <> ALL ($4::bigint[])
          AND b.sent_at IS NULL AND b.parked_at IS NULL AND b.partition IS NOT NULL
        ORDER BY b.seq LIMIT 1) AS seq
    FROM last
)
SELECT taken.seq, taken.id, taken.task, taken.queue, taken.partition, taken.input, taken.headers, taken.priority,
       taken.attempts, coalesce(elsewhere.seq < taken.seq, false) AS behind
FROM taken LEFT JOIN elsewhere ON elsewhere.partition = taken.partition
ORDER BY taken.seq
