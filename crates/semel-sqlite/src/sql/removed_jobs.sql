-- Jobs of a removed lane, oldest first. ?1 lane, ?2 from which seq on, ?3 how many.
SELECT seq FROM life WHERE lane = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3
