-- How many indexed entries a key has. ?1 digest.
SELECT count(*) FROM ledger_key WHERE digest = ?1
