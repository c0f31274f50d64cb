-- Runs of tokens after one, oldest first. ?1 n.
SELECT n, ns, low, high FROM token_run WHERE n > ?1 ORDER BY n
