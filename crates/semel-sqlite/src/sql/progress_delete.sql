-- Forgets how far a job was. ?1 seq.
DELETE FROM progress WHERE seq = ?1
