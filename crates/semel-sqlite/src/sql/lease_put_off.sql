-- Look at a batch again later. ?1 fence, ?2 until.
UPDATE lease SET until = ?2 WHERE fence = ?1
