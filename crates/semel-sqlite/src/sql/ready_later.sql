-- How many jobs of a lane wait for their time. ?1 lane, ?2 now.
SELECT count(*) FROM ready WHERE lane = ?1 AND run_at > ?2
