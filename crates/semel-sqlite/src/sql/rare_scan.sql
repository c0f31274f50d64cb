-- Jobs of a rare phase and lane before a position, newest first. ?1 phase, ?2 lane, ?3 before which seq, ?4 how many.
SELECT seq FROM rare WHERE phase = ?1 AND lane = ?2 AND seq < ?3 ORDER BY seq DESC LIMIT ?4
