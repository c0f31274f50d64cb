-- Appends to a feed. ?1 namespace, ?2 feed, ?3 n, ?4 at, ?5 body.
INSERT INTO feed (ns, name, n, at, body) VALUES (?1, ?2, ?3, ?4, ?5)
