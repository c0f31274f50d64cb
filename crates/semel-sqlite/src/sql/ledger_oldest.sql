-- The oldest entries. ?1 how many.
SELECT n, digest, token, at FROM ledger ORDER BY n LIMIT ?1
