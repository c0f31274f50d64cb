-- Notes up to when sent events were pruned. $1: age in milliseconds.
INSERT INTO semel_outbox_fact (name, at)
VALUES ('pruned_before', clock_timestamp() - $1::bigint * interval '1 millisecond')
ON CONFLICT (name) DO UPDATE SET at = greatest(semel_outbox_fact.at, excluded.at)
