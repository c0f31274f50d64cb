-- Settings of a namespace. ?1 namespace.
SELECT kind, name, paused_since, paused_until, reason, closed, is_unique, observe FROM setting WHERE ns = ?1 ORDER BY kind, name
