-- The number of a namespace. ?1 name.
SELECT ns FROM namespace WHERE name = ?1
