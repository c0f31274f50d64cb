-- Guarded keys that lapsed. ?1 now, ?2 how many.
DELETE FROM guard WHERE digest IN (SELECT digest FROM guard WHERE expires_at <= ?1 LIMIT ?2)
