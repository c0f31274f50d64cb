-- Of an older day, the first snapshot of each hour stays; after 30 days none. ?1 namespace, ?2 a day ago, ?3 30 days ago.
DELETE FROM snapshot WHERE ns = ?1 AND (at < ?3 OR (at < ?2 AND at NOT IN (SELECT min(at) FROM snapshot WHERE ns = ?1 AND at < ?2 GROUP BY at / 3600000)))
