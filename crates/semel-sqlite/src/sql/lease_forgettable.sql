-- Batches that may be forgotten. ?1 namespace, ?2 now, ?3 how many.
SELECT fence, seqs FROM lease WHERE ns = ?1 AND forget_at <= ?2 ORDER BY forget_at LIMIT ?3
