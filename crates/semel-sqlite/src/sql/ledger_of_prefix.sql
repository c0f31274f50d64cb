-- Indexed entries of a prefix, newest first. ?1 prefix.
SELECT k.n, l.digest, l.token FROM ledger_key k JOIN ledger l ON l.n = k.n WHERE k.h = ?1 ORDER BY k.n DESC
