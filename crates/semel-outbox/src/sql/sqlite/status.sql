-- How the outbox stands. ?1: now. Gives one row.
SELECT (SELECT count(*) FROM semel_outbox WHERE sent_at IS NULL AND parked_at IS NULL),
       (SELECT count(*) FROM semel_outbox WHERE sent_at IS NULL AND parked_at IS NULL AND attempts > 0),
       (SELECT count(*) FROM semel_outbox WHERE parked_at IS NOT NULL),
       coalesce((SELECT max(0, ?1 - created_at) FROM semel_outbox
                 WHERE sent_at IS NULL AND parked_at IS NULL ORDER BY seq LIMIT 1), 0),
       (SELECT max(sent_at) FROM semel_outbox WHERE sent_at IS NOT NULL),
       (SELECT at FROM semel_outbox_fact WHERE name = 'pruned_before')
