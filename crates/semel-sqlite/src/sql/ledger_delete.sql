-- A row is gone, or written anew. ?1 n.
DELETE FROM ledger WHERE n = ?1
