-- A number that never goes back. ?1 name.
SELECT value FROM floor WHERE name = ?1
