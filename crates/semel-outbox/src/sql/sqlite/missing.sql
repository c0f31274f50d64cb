-- Whether there is an event with an id. ?1: the id. Gives a row if there is.
SELECT 1 FROM semel_outbox WHERE id = ?1
