-- The replay of a dead letter. ?1 letter.
SELECT fresh FROM replay WHERE letter = ?1
