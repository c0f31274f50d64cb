-- Nothing is left of a removed lane but its totals. ?1 lane.
UPDATE lane SET removed = 2 WHERE lane = ?1
