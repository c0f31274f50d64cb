-- A worker's number. ?1 name.
SELECT worker FROM worker WHERE name = ?1
