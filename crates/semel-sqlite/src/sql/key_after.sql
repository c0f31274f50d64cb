-- Keys of the index after one, in its order. ?1 prefix and ?2 generation of that one, ?3 how many.
SELECT h, generation FROM key WHERE (h, generation) > (?1, ?2) ORDER BY h, generation LIMIT ?3
