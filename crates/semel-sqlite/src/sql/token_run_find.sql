-- The tokens of a run. ?1 n.
SELECT tokens FROM token_run WHERE n = ?1
