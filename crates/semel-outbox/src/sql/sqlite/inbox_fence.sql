-- Lets a delivery in if it is the newest that has been here. ?1: job, ?2: fence, ?3: now. Changes a row if it is let in.
INSERT INTO semel_inbox_fence (job, fence, at) VALUES (?1, ?2, ?3)
ON CONFLICT (job) DO UPDATE SET fence = excluded.fence, at = excluded.at
    WHERE semel_inbox_fence.fence <= excluded.fence
