-- The answers counted. ?1 namespace.
SELECT fresh, in_progress, done FROM guard_count WHERE ns = ?1
