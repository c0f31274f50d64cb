-- Entries of a commit. ?1 the first, ?2 namespace, ?3 when, ?4 the entries, packed.
INSERT INTO ledger (n, ns, at, entries) VALUES (?1, ?2, ?3, ?4)
