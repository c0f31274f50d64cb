-- The best jobs of a lane and priority up to a position are taken. ?1 lane, ?2 negated priority, ?3 run_at and ?4 seq of the last.
DELETE FROM ready WHERE lane = ?1 AND nprio = ?2 AND (run_at, seq) <= (?3, ?4)
