-- Rows with entries of a namespace, newest first. ?1 namespace, ?2 before which entry, ?3 after which.
SELECT n, ns, at, entries FROM ledger WHERE n < ?2 AND n > ?3 AND ns = ?1 ORDER BY n DESC
