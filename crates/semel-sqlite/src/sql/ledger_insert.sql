-- An absorbed submission. Values in the order of the columns.
INSERT INTO ledger (n, ns, at, token, outcome, digest, holder, queue, task, producer, policy, differs, input)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
