-- Documents of a kind from a name on, live ones. ?1 namespace, ?2 kind, ?3 first name, ?4 now, ?5 how many.
SELECT kind, name, version, body, updated_at, expires_at FROM document
WHERE ns = ?1 AND kind = ?2 AND name >= ?3 AND (expires_at IS NULL OR expires_at > ?4)
ORDER BY name LIMIT ?5
