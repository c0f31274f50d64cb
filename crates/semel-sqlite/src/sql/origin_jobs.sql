-- Whether any job of a chain but one is left. ?1 origin, ?2 seq of that one.
SELECT EXISTS (SELECT 1 FROM job WHERE origin = ?1 AND seq <> ?2)
