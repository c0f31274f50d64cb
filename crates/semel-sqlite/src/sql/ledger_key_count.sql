-- Indexed entries of a key. ?1 prefix, ?2 digest.
SELECT count(*) FROM ledger_key k JOIN ledger l ON l.n = k.n WHERE k.h = ?1 AND l.digest = ?2
