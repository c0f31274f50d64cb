-- A step. ?1 origin, ?2 name.
SELECT origin, name, state, job, fence, token, generation, begun_at, ended_at, output FROM step WHERE origin = ?1 AND name = ?2
