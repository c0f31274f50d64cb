-- Nothing of a batch runs any more. ?1 fence.
DELETE FROM lease WHERE fence = ?1
