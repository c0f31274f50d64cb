-- Lets a parked event, or all of them, be tried again. ?1: its id, or NULL for all.
UPDATE semel_outbox SET parked_at = NULL, attempts = 0, due_at = 0
WHERE parked_at IS NOT NULL AND sent_at IS NULL AND (?1 IS NULL OR id = ?1)
