-- How many jobs are kept for a key whose time has passed. ?1 namespace, ?2 now.
SELECT count(*) FROM stub WHERE ns = ?1 AND check_at <= ?2
