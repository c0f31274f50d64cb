-- All batches, for lists of running jobs. ?1 namespace.
SELECT seqs FROM lease WHERE ns = ?1
