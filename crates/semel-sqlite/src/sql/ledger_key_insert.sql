-- An entry can be found by its key. ?1 digest, ?2 n.
INSERT INTO ledger_key (digest, n) VALUES (?1, ?2) ON CONFLICT DO NOTHING
