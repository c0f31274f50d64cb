-- Every lane of a namespace, removed ones too. ?1 namespace.
SELECT lane, queue, task, removed, waiting, running, deferred, parked, complete, failed, cancelled,
  n_accepted, n_duplicate, n_replaced, n_debounced, n_deferred, n_rejected, n_conflicts, n_observed, n_collisions, n_completed, n_failed, n_cancelled, n_retried, n_stale_writes, n_expired
FROM lane WHERE ns = ?1
