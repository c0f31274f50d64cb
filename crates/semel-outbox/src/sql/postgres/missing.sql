-- Which of these ids have no event. $1: ids.
SELECT wanted.id FROM unnest($1::text[]) WITH ORDINALITY AS wanted (id, place)
WHERE NOT EXISTS (SELECT 1 FROM semel_outbox o WHERE o.id = wanted.id)
ORDER BY wanted.place
