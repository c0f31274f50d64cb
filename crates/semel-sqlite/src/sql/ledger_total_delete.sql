-- A key of which nothing is left. ?1 digest.
DELETE FROM ledger_total WHERE digest = ?1
