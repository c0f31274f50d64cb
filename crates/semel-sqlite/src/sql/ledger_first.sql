-- The number of the oldest row of the ledger.
SELECT min(n) FROM ledger
