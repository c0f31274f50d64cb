-- The job that is followed. ?1 follower.
SELECT holder FROM follow WHERE follower = ?1
