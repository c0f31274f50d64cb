-- A new namespace. ?1 name.
INSERT INTO namespace (name) VALUES (?1)
