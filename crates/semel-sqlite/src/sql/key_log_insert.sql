-- Owners that came or were forgotten in this commit. ?1 n, ?2 owners.
INSERT INTO key_log (n, owners) VALUES (?1, ?2)
