-- Lets go of an event as it is. ?1: place, ?2: who has it.
UPDATE semel_outbox SET claimed_by = NULL, claimed_until = NULL WHERE seq = ?1 AND claimed_by = ?2 AND sent_at IS NULL
