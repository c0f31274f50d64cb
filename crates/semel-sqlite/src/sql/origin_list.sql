-- Replays of a chain, oldest first. ?1 origin.
SELECT seq FROM job WHERE origin = ?1 ORDER BY seq
