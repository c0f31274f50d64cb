-- Drops runs of which every entry is older than one. ?1 that entry.
DELETE FROM token_run WHERE n < ?1
