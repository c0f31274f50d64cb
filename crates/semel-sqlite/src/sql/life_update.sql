-- A job moves on: everything that can change. Values as in life_insert.
UPDATE life SET phase = ?2, nprio = ?3, run_at = ?4, attempt = ?5, max_attempts = ?6, deliveries = ?7, fence = ?8, settled = ?9,
  began = ?10, until = ?11, started_at = ?12, finished_at = ?13, worker = ?14, last_error = ?15,
  hold = ?16, ttl = ?17, cool_down = ?18, taken_at = ?19, expires_at = ?20, generation = ?21
WHERE seq = ?1
