-- Look at a stub again later. ?1 seq, ?2 namespace, ?3 when.
INSERT INTO stub (seq, ns, check_at) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET check_at = excluded.check_at
