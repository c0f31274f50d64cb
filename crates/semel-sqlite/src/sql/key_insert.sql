-- An owner of a key moves into the index. ?1 prefix, ?2 generation, ?3 seq or NULL if it equals the generation.
INSERT INTO key (h, generation, seq) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
