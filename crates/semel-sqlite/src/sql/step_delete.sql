-- The steps of a chain of which no job is left. ?1 origin.
DELETE FROM step WHERE origin = ?1
