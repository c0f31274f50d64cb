-- How many keys are held, a column per hold: grouping would sort them. ?1 now, ?2 namespace. The same rule as Holding::is_held, which the model test compares it with.
SELECT count(*) FILTER (WHERE l.hold & 3 = 0), count(*) FILTER (WHERE l.hold & 3 = 1),
  count(*) FILTER (WHERE l.hold & 3 = 2), count(*) FILTER (WHERE l.hold & 3 = 3) FROM life l JOIN lane a ON a.lane = l.lane
WHERE l.hold IS NOT NULL AND l.hold & 64 = 0 AND a.ns = ?2 AND a.removed = 0 AND CASE
  WHEN l.phase < 4 AND l.hold & 3 IN (0, 1) THEN
    l.expires_at IS NULL OR ?1 < l.expires_at OR l.phase = 3 OR (l.until IS NOT NULL AND ?1 < l.until AND l.began < l.expires_at)
  WHEN l.phase < 4 THEN 1
  WHEN l.hold & 3 = 0 THEN 0
  WHEN l.hold & 3 = 1 THEN l.cool_down IS NOT NULL AND ?1 < l.finished_at + l.cool_down
  WHEN l.phase = 5 AND l.hold & 4 <> 0 THEN 0
  WHEN l.phase = 6 AND l.hold & 8 <> 0 THEN 0
  WHEN l.hold & 3 = 2 THEN ?1 < l.expires_at
  ELSE 1 END
