-- What a job is. ?1 seq.
SELECT j.id, j.enqueued_at, j.input, j.headers, j.meta, j.timeout, j.producer, j.digest, j.grp, j.key_text, j.key_by, j.scope, j.input_digest, j.origin, j.replayed_from, j.would, j.collides_with, j.born FROM job j WHERE j.seq = ?1
