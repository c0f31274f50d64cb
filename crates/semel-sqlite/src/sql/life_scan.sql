-- As job_scan, without the payload. ?1 before which seq, ?2 how many.
SELECT seq, lane, phase, run_at FROM life WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2
