-- Lets a token of a removed queue start anew. ?1 token, ?2 ref.
UPDATE token SET ref = ?2 WHERE token = ?1
