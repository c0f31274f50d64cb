-- Tokens of absorbed submissions, sorted. ?1 n, ?2 namespace, ?3 lowest and ?4 highest token, ?5 last entry, ?6 tokens.
INSERT INTO token_run (n, ns, low, high, last_entry, tokens) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
