-- An entry is gone. ?1 digest, ?2 n.
DELETE FROM ledger_key WHERE digest = ?1 AND n = ?2
