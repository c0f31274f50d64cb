-- Entries, newest first. ?1 namespace, ?2 before which n, ?3 after which n.
SELECT n, ns, at, outcome, digest, holder, queue, task, producer, policy, differs, input FROM ledger
WHERE n < ?2 AND n > ?3 AND ns = ?1 ORDER BY n DESC
