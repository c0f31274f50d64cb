-- A job leaves a rare phase. ?1 phase, ?2 lane, ?3 seq.
DELETE FROM rare WHERE phase = ?1 AND lane = ?2 AND seq = ?3
