-- The steps of a chain. ?1 origin.
SELECT origin, name, state, job, fence, token, generation, begun_at, ended_at, output FROM step WHERE origin = ?1 ORDER BY begun_at, name
