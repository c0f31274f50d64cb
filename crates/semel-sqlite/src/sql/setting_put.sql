-- A setting. Values in the order of the columns.
INSERT INTO setting (ns, kind, name, paused_since, paused_until, reason, closed, is_unique, observe) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO UPDATE SET paused_since = excluded.paused_since, paused_until = excluded.paused_until, reason = excluded.reason,
  closed = excluded.closed, is_unique = excluded.is_unique, observe = excluded.observe
