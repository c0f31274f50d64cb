-- A guarded key is reserved or done. ?1 digest, ?2 token, ?3 ttl, ?4 expires_at, ?5 output.
INSERT INTO guard (digest, token, ttl, expires_at, output) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET token = excluded.token, ttl = excluded.ttl, expires_at = excluded.expires_at, output = excluded.output
