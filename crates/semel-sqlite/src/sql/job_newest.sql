-- Whether the newest job above a floor is not entered yet. ?1 the floor.
SELECT birth IS NOT NULL FROM job WHERE seq > ?1 ORDER BY seq DESC LIMIT 1
