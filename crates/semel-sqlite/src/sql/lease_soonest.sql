-- When the first batch has to be looked at. ?1 namespace.
SELECT min(until) FROM lease WHERE ns = ?1
