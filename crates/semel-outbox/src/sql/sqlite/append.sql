-- Writes an event, in the caller's transaction.
-- ?1 id, ?2 task, ?3 queue, ?4 partition, ?5 input, ?6 headers, ?7 priority, ?8 now.
INSERT INTO semel_outbox (id, task, queue, partition, input, headers, priority, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
