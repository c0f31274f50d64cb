-- The newest entry of the ledger.
SELECT max(n) FROM ledger
