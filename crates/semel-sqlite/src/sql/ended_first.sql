-- The oldest row of a kind. ?1 namespace, ?2 kind, ?3 not newer than.
SELECT n, seqs FROM ended WHERE ns = ?1 AND kind = ?2 AND at <= ?3 ORDER BY n LIMIT 1
