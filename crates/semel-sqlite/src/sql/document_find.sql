-- A document, expired or not. ?1 namespace, ?2 kind, ?3 name.
SELECT kind, name, version, body, updated_at, expires_at FROM document WHERE ns = ?1 AND kind = ?2 AND name = ?3
