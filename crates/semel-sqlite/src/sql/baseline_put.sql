-- Counters of a lane start from here. ?1 lane, ?2 at, ?3 counts.
INSERT INTO baseline (lane, at, counts) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET at = excluded.at, counts = excluded.counts
