-- A guarded key. ?1 digest.
SELECT token, ttl, expires_at, output FROM guard WHERE digest = ?1
