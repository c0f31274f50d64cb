-- Marks an event as sent. ?1: place, ?2: now, ?3: the job that has it.
UPDATE semel_outbox SET sent_at = ?2, job = ?3, error = NULL, claimed_by = NULL, claimed_until = NULL
WHERE seq = ?1 AND sent_at IS NULL
