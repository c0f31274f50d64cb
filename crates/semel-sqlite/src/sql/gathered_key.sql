-- An owner of a key moves into the index. Without a seq it equals the generation.
INSERT INTO key (h, generation, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
