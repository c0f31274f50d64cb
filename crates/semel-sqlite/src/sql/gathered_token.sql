-- What came of a submission that was not known.
INSERT OR ROLLBACK INTO token (token, ref) VALUES (?, ?)
