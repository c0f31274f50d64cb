-- check: whether everything an answer rests on is still as it was read. For answers that write nothing.
--
-- Atomic: yes. Writes nothing.
-- KEYS  every key that is compared, all of one hash tag
-- ARGV  1 how many hashes are compared, then for each: key; how many fields; the fields; a text with '1' for each field
--         that has a value and '0' for each that has none; the values
--       keys are given by their place in KEYS
-- Gives 'same' or 'conflict'.
local at = 2
for _ = 1, tonumber(ARGV[1]) do
  local count = tonumber(ARGV[at + 1])
  local found = redis.call('HMGET', KEYS[tonumber(ARGV[at])], unpack(ARGV, at + 2, at + 1 + count))
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
return 'same'
