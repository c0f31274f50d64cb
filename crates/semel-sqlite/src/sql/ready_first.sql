-- When the first job of a lane and priority is due. ?1 lane, ?2 negated priority.
SELECT min(run_at) FROM ready WHERE lane = ?1 AND nprio = ?2
