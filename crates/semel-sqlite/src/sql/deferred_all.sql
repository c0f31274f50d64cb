-- Jobs that follow one of a queue that is removed. ?1 namespace, ?2 queue.
SELECT f.holder, f.follower FROM follow f JOIN life l ON l.seq = f.holder JOIN lane a ON a.lane = l.lane
WHERE a.ns = ?1 AND a.queue = ?2 AND a.removed = 0 ORDER BY f.follower
