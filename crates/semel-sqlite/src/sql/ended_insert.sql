-- Jobs ended in this commit. ?1 namespace, ?2 kind, ?3 n, ?4 at, ?5 seqs.
INSERT INTO ended (ns, kind, n, at, seqs) VALUES (?1, ?2, ?3, ?4, ?5)
