-- A row has been dealt with in part. ?1 namespace, ?2 kind, ?3 n, ?4 the rest.
UPDATE ended SET seqs = ?4 WHERE ns = ?1 AND kind = ?2 AND n = ?3
