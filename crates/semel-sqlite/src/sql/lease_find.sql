-- A batch by its fence. ?1 fence.
SELECT until, seqs FROM lease WHERE fence = ?1
