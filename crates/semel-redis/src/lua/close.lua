-- close: ends what submit.lua has begun, in the same transaction; or what one has left of which the end was refused,
-- which a server does that learns in between that its disk fails.
--
-- Atomic: yes. Said twice it does no more.
-- KEYS  1 meta  2 specs  3 incoming  4 left_out
-- Gives how many records it has removed.
local call = redis.call
-- Records of jobs that nobody has admitted; what has the empty field is the store's own, and not to be touched here.
local removed = 0
if call('EXISTS', KEYS[3]) == 1 and call('HEXISTS', KEYS[3], '') == 0 then
  removed = call('HLEN', KEYS[3])
  call('UNLINK', KEYS[3])
end
if call('HEXISTS', KEYS[1], 'admitting') == 1 then
  local left_out = call('LRANGE', KEYS[4], 0, -1)
  if #left_out > 0 then removed = removed + call('HDEL', KEYS[2], unpack(left_out)) end
  call('DEL', KEYS[4])
  call('HDEL', KEYS[1], 'admitting')
end
return removed
