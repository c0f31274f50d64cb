-- A guarded key is free. ?1 digest.
DELETE FROM guard WHERE digest = ?1
