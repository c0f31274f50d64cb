-- Whether any job follows another.
SELECT EXISTS (SELECT 1 FROM follow)
