-- Forgets a replay. ?1 letter.
DELETE FROM replay WHERE letter = ?1
