-- Indexed entries of a prefix, newest first. ?1 prefix, ?2 before which n.
SELECT l.n, l.ns, l.at, l.outcome, l.digest, l.holder, l.queue, l.task, l.producer, l.policy, l.differs, l.input
FROM ledger_key k JOIN ledger l ON l.n = k.n WHERE k.h = ?1 AND k.n < ?2 ORDER BY k.n DESC
