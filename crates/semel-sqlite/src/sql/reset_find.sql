-- Since when counters count. ?1 namespace.
SELECT at FROM reset WHERE ns = ?1
