-- The number of the last row of a kind. ?1 namespace, ?2 kind.
SELECT max(n) FROM ended WHERE ns = ?1 AND kind = ?2
