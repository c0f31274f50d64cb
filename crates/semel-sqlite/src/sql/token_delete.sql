-- Forgets a submission whose record is gone. ?1 token, ?2 the record it has to point to.
DELETE FROM token WHERE token = ?1 AND ref = ?2
