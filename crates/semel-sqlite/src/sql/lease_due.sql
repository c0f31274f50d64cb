-- The batch to look at first. ?1 namespace, ?2 now.
SELECT fence, seqs FROM lease WHERE ns = ?1 AND until <= ?2 ORDER BY until, fence LIMIT 1
