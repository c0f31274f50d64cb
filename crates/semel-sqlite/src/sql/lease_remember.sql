-- A batch of which something still runs. ?1 fence, ?2 forget_at.
UPDATE lease SET forget_at = ?2 WHERE fence = ?1
