-- finish: payloads are jobs now, or go to the failed ones.
--
-- Atomic: yes. Repeating it changes nothing.
-- KEYS  1 under way  2 failed
-- ARGV  pairs of a token and what is written to the failed ones, '' for none
-- Gives how many were under way.
local call, finished = redis.call, 0
for n = 1, #ARGV, 2 do
  if call('HDEL', KEYS[1], ARGV[n]) == 1 then
    finished = finished + 1
    if ARGV[n + 1] ~= '' then call('RPUSH', KEYS[2], ARGV[n + 1]) end
  end
end
return finished
