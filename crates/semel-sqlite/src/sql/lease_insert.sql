-- One claimed batch. ?1 fence, ?2 namespace, ?3 until, ?4 token, ?5 seqs, ?6 forget_at.
INSERT INTO lease (fence, ns, until, token, seqs, forget_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
