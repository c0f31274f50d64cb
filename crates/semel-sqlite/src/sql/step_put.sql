-- A step begins, is confirmed or refused. Values in the order of the columns.
INSERT INTO step (origin, name, state, job, fence, token, generation, begun_at, ended_at, output)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT DO UPDATE SET state = excluded.state, job = excluded.job, fence = excluded.fence, token = excluded.token,
  generation = excluded.generation, begun_at = excluded.begun_at, ended_at = excluded.ended_at, output = excluded.output
