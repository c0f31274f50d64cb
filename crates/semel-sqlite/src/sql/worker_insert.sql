-- A new worker. ?1 name.
INSERT INTO worker (name) VALUES (?1)
