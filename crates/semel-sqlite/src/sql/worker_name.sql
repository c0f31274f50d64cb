-- A worker's name. ?1 number.
SELECT name FROM worker WHERE worker = ?1
