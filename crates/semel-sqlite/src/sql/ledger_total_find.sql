-- Entries of a key that are gone. ?1 digest.
SELECT gone FROM ledger_total WHERE digest = ?1
