-- An absorbed submission.
INSERT OR ROLLBACK INTO ledger (n, ns, at, token, outcome, digest, holder, queue, task, producer, policy, differs, input) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
