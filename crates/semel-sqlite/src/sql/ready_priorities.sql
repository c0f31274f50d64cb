-- The priorities that wait in a lane, by jumping from one to the next. ?1 lane.
WITH RECURSIVE p (nprio) AS (
  SELECT min(nprio) FROM ready WHERE lane = ?1
  UNION ALL
  SELECT (SELECT min(nprio) FROM ready WHERE lane = ?1 AND nprio > p.nprio) FROM p WHERE p.nprio IS NOT NULL
) SELECT nprio FROM p WHERE nprio IS NOT NULL
