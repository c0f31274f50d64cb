-- Of the deliveries of a stub, the one with the last error stays. ?1 seq, ?2 its number.
DELETE FROM attempt WHERE seq = ?1 AND n IS NOT ?2
