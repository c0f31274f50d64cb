-- Writes a document. Values in the order of the columns.
INSERT INTO document (ns, kind, name, version, body, updated_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO UPDATE SET version = excluded.version, body = excluded.body, updated_at = excluded.updated_at, expires_at = excluded.expires_at
