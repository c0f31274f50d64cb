-- A setting goes back to its default. ?1 namespace, ?2 kind, ?3 name.
DELETE FROM setting WHERE ns = ?1 AND kind = ?2 AND name = ?3
