-- An entry is gone. ?1 n.
DELETE FROM ledger WHERE n = ?1
