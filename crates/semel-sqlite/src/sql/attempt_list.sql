-- Deliveries that ended, oldest first. ?1 seq.
SELECT attempt, fence, began, ended, result, error, worker FROM attempt WHERE seq = ?1 ORDER BY n
