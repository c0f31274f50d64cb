-- Rows of the log whose owners are all in the index. ?1 the last of them.
DELETE FROM key_log WHERE n <= ?1
