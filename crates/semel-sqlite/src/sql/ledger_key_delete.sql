-- An entry is gone. ?1 prefix, ?2 n.
DELETE FROM ledger_key WHERE h = ?1 AND n = ?2
