-- What an effect gave. ?1: origin, ?2: step.
SELECT output FROM semel_inbox WHERE origin = ?1 AND step = ?2
