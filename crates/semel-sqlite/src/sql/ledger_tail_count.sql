-- Entries of a key that are not indexed yet. ?1 from which n on, ?2 digest.
SELECT count(*) FROM ledger WHERE n > ?1 AND digest = ?2
