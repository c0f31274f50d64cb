-- The largest token that is known.
SELECT max(token) FROM token
