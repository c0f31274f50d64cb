-- Indexed owners under a prefix, newest first; the caller compares whole digests. ?1 prefix.
SELECT generation, coalesce(seq, generation) FROM key WHERE h = ?1 ORDER BY generation DESC
