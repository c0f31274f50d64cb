-- An entry can be found by its key. ?1 prefix, ?2 n.
INSERT INTO ledger_key (h, n) VALUES (?1, ?2) ON CONFLICT DO NOTHING
