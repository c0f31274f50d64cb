-- What came of a submission. ?1 token. Gives ref.
SELECT ref FROM token WHERE token = ?1
