-- Its life is gone. ?1 seq.
DELETE FROM life WHERE seq = ?1
