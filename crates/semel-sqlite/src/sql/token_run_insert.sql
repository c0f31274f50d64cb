-- Tokens of absorbed submissions, sorted. ?1 the last entry, ?2 namespace, ?3 lowest and ?4 highest token, ?5 tokens.
INSERT INTO token_run (n, ns, low, high, tokens) VALUES (?1, ?2, ?3, ?4, ?5)
