-- The row an entry is in. ?1 n.
SELECT n, ns, at, entries FROM ledger WHERE n <= ?1 ORDER BY n DESC LIMIT 1
