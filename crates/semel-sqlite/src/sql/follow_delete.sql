-- It follows no more. ?1 holder.
DELETE FROM follow WHERE holder = ?1
