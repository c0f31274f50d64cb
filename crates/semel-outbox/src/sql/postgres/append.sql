-- Writes events, in the caller's transaction, in their order. An id that is there already is left as it is.
-- $1 ids, $2 tasks, $3 queues, $4 partitions, $5 inputs, $6 headers, $7 priorities; $8: whether an id may be there.
-- Gives the number of events written.
WITH wanted AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::smallint[])
        WITH ORDINALITY AS w (id, task, queue, partition, input, headers, priority, place)
), written AS (
    INSERT INTO semel_outbox (id, task, queue, partition, input, headers, priority)
    SELECT id, task, queue, partition, input::json, headers::json, priority
    FROM wanted
    WHERE NOT ($8::boolean AND EXISTS (SELECT 1 FROM semel_outbox o WHERE o.id = wanted.id))
    ORDER BY place
    RETURNING 1
)
SELECT count(*) FROM written
