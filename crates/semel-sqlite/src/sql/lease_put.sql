-- A batch is watched again, or sooner. ?1 fence, ?2 namespace, ?3 until, ?4 a token of its own if it is new, ?5 seqs, ?6 forget_at if it is new.
INSERT INTO lease (fence, ns, until, token, seqs, forget_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (fence) DO UPDATE SET until = excluded.until, seqs = excluded.seqs
