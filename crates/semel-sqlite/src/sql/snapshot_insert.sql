-- A snapshot. ?1 namespace, ?2 at, ?3 counts.
INSERT INTO snapshot (ns, at, counts) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
