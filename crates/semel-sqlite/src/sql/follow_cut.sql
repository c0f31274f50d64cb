-- It is followed no more. ?1 follower.
DELETE FROM follow WHERE follower = ?1
