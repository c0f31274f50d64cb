-- Owners under a prefix, newest first; the caller compares whole digests. ?1 prefix.
SELECT coalesce(k.seq, k.generation), k.generation, j.digest, j.grp
FROM key k JOIN job j ON j.seq = coalesce(k.seq, k.generation)
WHERE k.h = ?1 ORDER BY k.generation DESC
