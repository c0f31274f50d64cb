-- An owner of a key moves into the index. Without a seq it equals the generation. (An upsert of many rows would keep a journal of its own.)
INSERT OR IGNORE INTO key (h, generation, seq) VALUES (?, ?, ?)
