-- The oldest row of the log of owners.
SELECT min(n) FROM key_log
