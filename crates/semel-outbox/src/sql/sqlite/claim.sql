-- Takes events that are due, for a while. What another relay has taken is passed over, and so is everything behind it
-- in its partition; likewise behind an event that waits to be tried again. A time that lies further ahead than any
-- relay writes one is of a clock that was set back since, and holds nothing up.
-- ?1: who, ?2: now, ?3: until when, ?4: at most so many, ?5: no event is put off beyond this, ?6: nor taken.
-- Gives the events in no order.
UPDATE semel_outbox SET claimed_by = ?1, claimed_until = ?3
WHERE seq IN (
    SELECT o.seq FROM semel_outbox o
    WHERE o.sent_at IS NULL AND o.parked_at IS NULL
      AND (o.due_at <= ?2 OR o.due_at > ?5)
      AND (o.claimed_until IS NULL OR o.claimed_until <= ?2 OR o.claimed_until > ?6)
      AND (o.partition IS NULL OR NOT EXISTS (
          SELECT 1 FROM semel_outbox b
          WHERE b.sent_at IS NULL AND b.parked_at IS NULL AND (b.attempts > 0 OR b.claimed_until IS NOT NULL)
            AND b.partition = o.partition AND b.seq < o.seq
            AND (b.due_at > ?2 AND b.due_at <= ?5 OR b.claimed_until > ?2 AND b.claimed_until <= ?6)))
    ORDER BY o.seq
    LIMIT ?4
)
RETURNING seq, id, task, queue, partition, input, headers, priority, attempts
