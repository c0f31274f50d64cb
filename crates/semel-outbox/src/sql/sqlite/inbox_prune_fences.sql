-- Forgets deliveries that were here before a moment. ?1: the moment.
DELETE FROM semel_inbox_fence WHERE at < ?1
