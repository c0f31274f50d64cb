-- Steps that are begun, oldest first.
SELECT origin, name, state, job, fence, token, generation, begun_at, ended_at, output FROM step WHERE state = 0 ORDER BY begun_at, origin, name
