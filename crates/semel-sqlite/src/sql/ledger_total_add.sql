-- Entries that are gone stay counted. ?1 digest, ?2 how many.
INSERT INTO ledger_total (digest, gone) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET gone = gone + excluded.gone
