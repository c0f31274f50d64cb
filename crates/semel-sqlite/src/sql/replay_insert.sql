-- A dead letter was replayed. ?1 letter, ?2 the fresh job's id.
INSERT INTO replay (letter, fresh) VALUES (?1, ?2)
