-- Followers in a queue that is removed. ?1 namespace, ?2 queue.
DELETE FROM follow WHERE follower IN (SELECT r.seq FROM rare r JOIN lane a ON a.lane = r.lane WHERE r.phase = 2 AND a.ns = ?1 AND a.queue = ?2 AND a.removed = 0)
