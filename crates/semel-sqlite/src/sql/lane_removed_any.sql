-- Lanes whose jobs are to be swept. ?1 namespace.
SELECT lane FROM lane WHERE ns = ?1 AND removed = 1
