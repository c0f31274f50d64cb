-- A job no longer waits. ?1 lane, ?2 negated priority, ?3 run_at, ?4 seq.
DELETE FROM ready WHERE lane = ?1 AND nprio = ?2 AND run_at = ?3 AND seq = ?4
