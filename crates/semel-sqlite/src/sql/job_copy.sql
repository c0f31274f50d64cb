-- A fresh job in place of a dead letter. ?1 letter, ?2 seq, ?3 id, ?4 now, ?5 origin, ?6 the letter's id.
INSERT INTO job (seq, id, enqueued_at, input, headers, meta, timeout, producer, digest, grp, key_text, key_by, scope, input_digest, origin, replayed_from)
SELECT ?2, ?3, ?4, input, headers, meta, timeout, producer, digest, grp, key_text, key_by, scope, input_digest, ?5, ?6 FROM job WHERE seq = ?1
