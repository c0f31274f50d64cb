-- The first answer to an absorbed submission. ?1 n.
SELECT outcome, digest, holder, differs FROM ledger WHERE n = ?1
