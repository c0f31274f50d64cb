-- Snapshots since a moment. ?1 namespace, ?2 since.
SELECT at, counts FROM snapshot WHERE ns = ?1 AND at >= ?2 ORDER BY at
