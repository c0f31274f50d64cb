-- Indexed entries of a key, newest first. ?1 digest, ?2 before which n.
SELECT n FROM ledger_key WHERE digest = ?1 AND n < ?2 ORDER BY n DESC
