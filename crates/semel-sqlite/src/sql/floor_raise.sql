-- Raises a number that never goes back. ?1 name, ?2 value.
INSERT INTO floor (name, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = max(value, excluded.value)
