-- Keeps what an effect gave. ?1: origin, ?2: step, ?3: output.
UPDATE semel_inbox SET output = ?3 WHERE origin = ?1 AND step = ?2
