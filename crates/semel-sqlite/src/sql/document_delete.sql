-- Removes a document. ?1 namespace, ?2 kind, ?3 name.
DELETE FROM document WHERE ns = ?1 AND kind = ?2 AND name = ?3
