-- A job follows another. ?1 holder, ?2 follower.
INSERT INTO follow (holder, follower) VALUES (?1, ?2)
