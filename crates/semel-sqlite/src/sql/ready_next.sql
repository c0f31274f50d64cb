-- When the next job of a lane and priority is due. ?1 lane, ?2 negated priority, ?3 now.
SELECT min(run_at) FROM ready WHERE lane = ?1 AND nprio = ?2 AND run_at > ?3
