-- Counts answers. ?1 namespace, ?2 fresh, ?3 in progress, ?4 done.
INSERT INTO guard_count (ns, fresh, in_progress, done) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET fresh = fresh + excluded.fresh, in_progress = in_progress + excluded.in_progress, done = done + excluded.done
