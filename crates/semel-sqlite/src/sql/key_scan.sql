-- Jobs with a key before a position, newest first. ?1 before which seq, ?2 how many to look at.
SELECT seq, key_text, digest IS NOT NULL FROM job WHERE seq < ?1 AND digest IS NOT NULL ORDER BY seq DESC LIMIT ?2
