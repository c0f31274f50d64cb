-- Key and origin of a job. ?1 seq.
SELECT id, digest, grp, origin FROM job WHERE seq = ?1
