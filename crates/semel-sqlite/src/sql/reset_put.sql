-- Since when counters count. ?1 namespace, ?2 at.
INSERT INTO reset (ns, at) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET at = excluded.at
