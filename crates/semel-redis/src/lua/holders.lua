-- holders: who took some keys last, and how those jobs fare; and numbers for what may be said of it in the ledger.
--
-- Atomic: yes, one instant. Writes nothing but the counter.
-- KEYS  1 meta  2 leases  3 heads  4 specs, then for each key the hash of its owner
-- ARGV  1 what the keys are called among the owners, 16 bytes each, in one text  2 ledger numbers wanted
--       (1,000 keys are looked for at most)
-- Gives { seconds, microseconds, version of lanes and settings or '', end of the soonest lease or '',
--         last ledger number, for each key '' or the id of its newest owner; two bytes: how long its head is, or 0
--         if it has none; its head; the head it was born with, as in its record of birth }.
--       Neither head is there if nothing is kept of the job. The numbers given are the ones up to the last; those
--       that are not used stay gaps.
local call, sub, byte = redis.call, string.sub, string.byte
local names, ids, places = ARGV[1], {}, {}
local time = call('TIME')
local last = 0
if ARGV[2] ~= '0' then last = call('HINCRBY', KEYS[1], 'ledger', ARGV[2]) end
local config = call('HGET', KEYS[1], 'config')
local soonest = call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
local answer = { time[1], time[2], config or '', soonest or '', last }
for n = 1, #KEYS - 4 do
  local owner = call('HGET', KEYS[4 + n], sub(names, 16 * n - 15, 16 * n))
  answer[5 + n] = ''
  -- The first owner of a key is kept by its id alone; of any other the second bit says whether its id is at the end.
  if owner and (#owner == 16 or byte(owner) % 4 >= 2) then
    ids[#ids + 1] = sub(owner, -16)
    places[#ids] = 5 + n
  end
end
if #ids > 0 then
  local heads, specs = call('HMGET', KEYS[3], unpack(ids)), call('HMGET', KEYS[4], unpack(ids))
  for n = 1, #ids do
    local head, born = heads[n] or '', specs[n] or ''
    -- What `head.rs` calls a birth: its second byte says how long the head is.
    local first = byte(born)
    if first == 4 or first == 5 then born = sub(born, 1, 2 + byte(born, 2)) else born = '' end
    answer[places[n]] = ids[n] .. struct.pack('>I2', #head) .. head .. born
  end
end
return answer
