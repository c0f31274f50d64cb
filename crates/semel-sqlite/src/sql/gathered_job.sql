-- A new job that has nothing unusual.
INSERT OR ROLLBACK INTO job (seq, id, enqueued_at, birth, input, digest, key_text, key_by, input_digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
