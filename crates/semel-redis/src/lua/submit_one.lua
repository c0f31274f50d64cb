-- submit_one: the same as submit for one job that counts in one number, with nothing to unpack and the fewest commands.
--
-- Atomic: yes. Nothing is written unless lanes, settings, numbers and clock are as believed.
-- A call that is repeated, or comes late, finds its own job and leaves it out.
-- KEYS  1 meta  2 leases  3 specs  4 tokens  5 ready  6 places  7 chunks  8 its chunk of the order of arrival
--       9 if it has a key: the hash of owners
-- ARGV  1 the time of the decision in milliseconds: no lease may have run out by then
--       2 how many milliseconds the server's clock may be away from it; '' where it was looked at just now
--       3 version of lanes and settings; '' if there is none
--       4 the number of arrival nobody may have drawn after; '' if the number used here was drawn before; below 0:
--         without the sign it is the last number drawn, and nothing else will do
--       5 the last number of arrival after this call
--       6 channel  7 message  8 member of places  9 number of the chunk  10 the field of meta that it counts in
--       11 id  12 record of birth  13 score  14 member, by itself or a pack (`pack.rs`)  15 if it has a key: what it is
--       called among the owners
-- Gives 1, or 0 if the job was left out; where the clock was looked at, { 'done', seconds, microseconds } or
--       { 'done', seconds, microseconds, 0 },
--       or { 'again', seconds, microseconds, last number of arrival }: number or clock were not as believed,
--       or { 'long' }: lanes or settings have changed, or a lease has run out.
local call = redis.call
local meta = call('HMGET', KEYS[1], 'config', 'seq', ARGV[10])
if (meta[1] or '') ~= ARGV[3] or call('ZCOUNT', KEYS[2], '-inf', ARGV[1]) > 0 then return { 'long' } end
local drawn, presumed, time = tonumber(meta[2] or '0'), tonumber(ARGV[4]), nil
local again = presumed and (drawn > math.abs(presumed) or drawn < -presumed)
if again or ARGV[2] ~= '' then
  time = call('TIME')
  local away = ARGV[2] ~= '' and math.abs(time[1] * 1000 + time[2] / 1000 - ARGV[1]) > tonumber(ARGV[2])
  if again or away then return { 'again', time[1], time[2], meta[2] or '0' } end
end

-- One for the tokens, two for the order of dispatch. The job is written at once, and taken back if it may not be.
local there, id, out = call('EXISTS', KEYS[4], KEYS[5], KEYS[5]), ARGV[11], false
if (there % 2 == 1 and call('HEXISTS', KEYS[4], id) == 1)
  or (KEYS[9] and call('HSETNX', KEYS[9], ARGV[15], id) == 0) then
  out = true
elseif call('HSETNX', KEYS[3], id, ARGV[12]) == 0 then
  if KEYS[9] then call('HDEL', KEYS[9], ARGV[15]) end
  out = true
end
if out then
  if presumed then call('HSET', KEYS[1], 'seq', ARGV[5]) end
  if time then return { 'done', time[1], time[2], 0 } end
  return 0
end
if presumed then
  call('HSET', KEYS[1], 'seq', ARGV[5], ARGV[10], (meta[3] or 0) + 1)
else
  call('HINCRBY', KEYS[1], ARGV[10], 1)
end
call('ZADD', KEYS[5], ARGV[13], ARGV[14])
-- A chunk that had jobs before is known.
if call('RPUSH', KEYS[8], string.sub(ARGV[14], 8, 24)) == 1 then call('ZADD', KEYS[7], ARGV[9], ARGV[9]) end
if there < 2 then call('SADD', KEYS[6], ARGV[8]) end
call('PUBLISH', ARGV[6], ARGV[7])
if time then return { 'done', time[1], time[2] } end
return 1
