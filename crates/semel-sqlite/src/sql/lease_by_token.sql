-- The batch of an earlier claim. ?1 token.
SELECT fence, seqs FROM lease WHERE token = ?1
