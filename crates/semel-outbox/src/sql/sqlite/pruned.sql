-- Notes up to when sent events were pruned. ?1: the moment.
INSERT INTO semel_outbox_fact (name, at) VALUES ('pruned_before', ?1)
ON CONFLICT (name) DO UPDATE SET at = max(at, excluded.at)
