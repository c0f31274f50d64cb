-- Entries after a position. ?1 n, ?2 how many.
SELECT n, digest FROM ledger WHERE n > ?1 ORDER BY n LIMIT ?2
