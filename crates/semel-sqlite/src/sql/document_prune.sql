-- Documents that expired. ?1 now, ?2 how many.
DELETE FROM document WHERE (ns, kind, name) IN (SELECT ns, kind, name FROM document WHERE expires_at <= ?1 LIMIT ?2)
