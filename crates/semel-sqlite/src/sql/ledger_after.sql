-- Rows after an entry, oldest first. ?1 n.
SELECT n, ns, at, entries FROM ledger WHERE n > ?1 ORDER BY n
