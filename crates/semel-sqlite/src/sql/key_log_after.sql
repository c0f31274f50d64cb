-- Rows of the log of owners after one. ?1 n.
SELECT n, owners FROM key_log WHERE n > ?1 ORDER BY n
