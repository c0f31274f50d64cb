-- apply: writes what was decided outside, if everything the decision rested on is still as it was read.
--
-- Atomic: the comparison and all writes. Nothing is written unless every comparison holds.
-- A call that is repeated, or comes late, writes nothing and says so: a lost reply is asked for again. The numbers of
-- a handle only grow, and it makes one call at a time.
-- KEYS  every key that is compared or written, all of one hash tag; last: what this handle has applied last
-- ARGV  1 number of the call
--       2 how many hashes are compared, then for each: key; how many fields; the fields; a text with '1' for each field
--         that has a value and '0' for each that has none; the values
--       then commands, each: how many arguments follow its name and key; name; key; arguments
--         '@forget'   key = a collection; arguments: key of an index, 'SREM' or 'ZREM', its member:
--                     takes the member out of the index if the collection is empty
--         '@copy'     key = a collection; argument: key of the one it is copied over
--         '@publish'  key = 0; arguments: channel, message
--       keys are given by their place in KEYS; no command has more arguments than unpack takes
-- Gives 'applied', 'before' (by the same call), or 'conflict'.
local call = redis.call
local applied = KEYS[#KEYS]
if tonumber(call('GET', applied) or '0') >= tonumber(ARGV[1]) then return 'before' end
local at = 3
for _ = 1, tonumber(ARGV[2]) do
  local count = tonumber(ARGV[at + 1])
  local found = call('HMGET', KEYS[tonumber(ARGV[at])], unpack(ARGV, at + 2, at + 1 + count))
  local there = ARGV[at + 2 + count]
  at = at + 3 + count
  for n = 1, count do
    if string.byte(there, n) == 49 then
      if found[n] ~= ARGV[at] then return 'conflict' end
      at = at + 1
    elseif found[n] then
      return 'conflict'
    end
  end
end
call('SET', applied, ARGV[1], 'EX', 86400)
local last = #ARGV
while at <= last do
  local count, name, key = tonumber(ARGV[at]), ARGV[at + 1], tonumber(ARGV[at + 2])
  at = at + 3
  if name == '@forget' then
    if call('EXISTS', KEYS[key]) == 0 then
      call(ARGV[at + 1], KEYS[tonumber(ARGV[at])], ARGV[at + 2])
    end
  elseif name == '@copy' then
    call('COPY', KEYS[key], KEYS[tonumber(ARGV[at])], 'REPLACE')
  elseif name == '@publish' then
    call('PUBLISH', ARGV[at], ARGV[at + 1])
  else
    call(name, KEYS[key], unpack(ARGV, at, at + count - 1))
  end
  at = at + count
end
return 'applied'
