-- apply: writes what was decided outside, if everything the decision rested on is still as it was read.
--
-- Atomic: the comparison and all writes. Nothing is written unless every comparison holds.
-- A call that is repeated, or comes late, writes nothing and says so: a lost reply is asked for again. The numbers of
-- a handle only grow, and it makes one call at a time.
-- KEYS  every key that is compared or written, all of one hash tag; last: what this handle has applied last
-- ARGV  1 number of the call
--       2 how many comparisons, then for each: key, field, '1' and the value, or '0' and '' for no value
--       then commands, each: how many arguments follow its name and key; name; key; arguments
--         '@forget'   key = a collection; arguments: key of an index, 'SREM' or 'ZREM', its member:
--                     takes the member out of the index if the collection is empty
--         '@copy'     key = a collection; argument: key of the one it is copied over
--         '@publish'  key = 0; arguments: channel, message
--       keys are given by their place in KEYS
-- Gives 'applied', 'before' (by the same call), or 'conflict'.
local applied = KEYS[#KEYS]
if tonumber(redis.call('GET', applied) or '0') >= tonumber(ARGV[1]) then return 'before' end
local at = 3
for _ = 1, tonumber(ARGV[2]) do
  local found = redis.call('HGET', KEYS[tonumber(ARGV[at])], ARGV[at + 1])
  if ARGV[at + 2] == '1' then
    if found ~= ARGV[at + 3] then return 'conflict' end
  elseif found then
    return 'conflict'
  end
  at = at + 4
end
redis.call('SET', applied, ARGV[1], 'EX', 86400)
local last = #ARGV
while at <= last do
  local count, name, key = tonumber(ARGV[at]), ARGV[at + 1], tonumber(ARGV[at + 2])
  at = at + 3
  if name == '@forget' then
    if redis.call('EXISTS', KEYS[key]) == 0 then
      redis.call(ARGV[at + 1], KEYS[tonumber(ARGV[at])], ARGV[at + 2])
    end
  elseif name == '@copy' then
    redis.call('COPY', KEYS[key], KEYS[tonumber(ARGV[at])], 'REPLACE')
  elseif name == '@publish' then
    redis.call('PUBLISH', ARGV[at], ARGV[at + 1])
  else
    redis.call(name, KEYS[key], unpack(ARGV, at, at + count - 1))
  end
  at = at + count
end
return 'applied'
