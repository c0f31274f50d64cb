-- How the outbox stands. Gives one row.
SELECT (SELECT count(*) FROM semel_outbox WHERE sent_at IS NULL AND parked_at IS NULL AND seq > 0) AS pending,
       (SELECT count(*) FROM semel_outbox WHERE sent_at IS NULL AND parked_at IS NULL AND attempts > 0) AS failing,
       (SELECT count(*) FROM semel_outbox WHERE parked_at IS NOT NULL) AS parked,
       coalesce((SELECT greatest(0, extract(epoch FROM clock_timestamp() - created_at) * 1000) FROM semel_outbox
                 WHERE sent_at IS NULL AND parked_at IS NULL AND seq > 0 ORDER BY seq LIMIT 1), 0)::bigint AS lag_ms,
       (SELECT extract(epoch FROM sent_at) * 1000 FROM semel_outbox
        WHERE sent_at IS NOT NULL ORDER BY sent_at DESC LIMIT 1)::bigint AS last_sent_ms,
       (SELECT extract(epoch FROM at) * 1000 FROM semel_outbox_fact WHERE name = 'pruned_before')::bigint
           AS pruned_before_ms
