-- The job that follows. ?1 holder.
SELECT follower FROM follow WHERE holder = ?1
