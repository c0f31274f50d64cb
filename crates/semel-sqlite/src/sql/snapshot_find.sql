-- Whether a moment has a snapshot. ?1 namespace, ?2 at.
SELECT EXISTS (SELECT 1 FROM snapshot WHERE ns = ?1 AND at = ?2)
