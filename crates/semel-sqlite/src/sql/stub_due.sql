-- Stubs to look at. ?1 namespace, ?2 now, ?3 how many.
SELECT seq FROM stub WHERE ns = ?1 AND check_at <= ?2 ORDER BY check_at LIMIT ?3
