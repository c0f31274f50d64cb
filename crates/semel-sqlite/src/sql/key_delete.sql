-- An owner is forgotten. ?1 prefix, ?2 generation.
DELETE FROM key WHERE h = ?1 AND generation = ?2
