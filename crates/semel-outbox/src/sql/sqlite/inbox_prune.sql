-- Forgets effects that were carried out before a moment. ?1: the moment.
DELETE FROM semel_inbox WHERE at < ?1
