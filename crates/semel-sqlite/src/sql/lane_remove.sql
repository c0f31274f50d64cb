-- A queue is removed: its lanes are no longer live. ?1 namespace, ?2 queue.
UPDATE lane SET removed = 1 WHERE ns = ?1 AND queue = ?2 AND removed = 0
