-- Due jobs of a lane and priority after a position, in order. ?1 lane, ?2 negated priority, ?3 now, ?4 run_at and ?5 seq of the position, ?6 how many.
SELECT run_at, seq FROM ready
WHERE lane = ?1 AND nprio = ?2 AND run_at <= ?3 AND (run_at, seq) > (?4, ?5)
ORDER BY run_at, seq LIMIT ?6
