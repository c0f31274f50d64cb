-- A new job. Values in the order of the columns.
INSERT INTO job (seq, id, enqueued_at, input, headers, meta, timeout, producer, digest, grp, key_text, key_by, scope, input_digest, origin, replayed_from, would, collides_with, born)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
