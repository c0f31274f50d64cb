-- Notes that an event was not taken and when to try again. ?1: place, ?2: who has it, ?3: when, ?4: why.
UPDATE semel_outbox SET attempts = attempts + 1, error = ?4, due_at = ?3, claimed_by = NULL, claimed_until = NULL
WHERE seq = ?1 AND claimed_by = ?2 AND sent_at IS NULL
