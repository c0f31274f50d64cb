-- check: whether everything an answer rests on is still as it was read. For answers that write nothing.
--
-- Atomic: yes. Writes nothing.
-- KEYS  every key that is compared, all of one hash tag
-- ARGV  for each comparison: key, field, '1' and the value, or '0' and '' for no value;
--       keys are given by their place in KEYS
-- Gives 'same' or 'conflict'.
for at = 1, #ARGV, 4 do
  local found = redis.call('HGET', KEYS[tonumber(ARGV[at])], ARGV[at + 1])
  if ARGV[at + 2] == '1' then
    if found ~= ARGV[at + 3] then return 'conflict' end
  elseif found then
    return 'conflict'
  end
end
return 'same'
