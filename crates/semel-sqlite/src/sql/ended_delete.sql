-- A row has been dealt with. ?1 namespace, ?2 kind, ?3 n.
DELETE FROM ended WHERE ns = ?1 AND kind = ?2 AND n = ?3
