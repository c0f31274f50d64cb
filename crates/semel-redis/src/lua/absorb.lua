-- absorb: submissions whose keys were held a moment ago, within the same call, leave their records in the ledger. What
-- becomes of them was decided by core, on what holders.lua gave.
--
-- Atomic: yes. Nothing is written unless lanes and settings are as they were then, nobody has seen any of the tokens, and
-- the holders are still there: a server that took over meanwhile may have lost them.
-- Who has the keys by now does not matter: the submissions take their place at the instant that was looked at.
-- A call that is repeated, or comes late, finds its own tokens and writes nothing.
-- KEYS  1 meta  2 specs  3 tokens  4 ledger_pages  5 touched, then pages of the ledger, then for each key its entries
-- ARGV  1 version of lanes and settings; '' if there is none
--       2 submissions  3 pages  4 keys  5 counters  6 entries of one key that are kept
--       7 digests of the keys, 32 bytes each, in one text  8 ids of their holders, 16 bytes each, likewise
--       then for each page: its number; how many entries
--       for each counter: field; by how much
--       for each submission, by number in the ledger: that number; its entry
--       for each submission: token; number in the ledger
--       for each key: how many submissions; their places
--       (2,000 values are unpacked at most)
-- Gives 1,
--       or { 'other', places of the submissions whose token is known… },
--       or { 'long' }: lanes or settings have changed, a holder is gone, or there is an entry of somebody else under such
--       a number.
local call, sub = redis.call, string.sub
local items, pages, keys, counters = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local of_counters = 8 + 2 * pages
local entries = of_counters + 2 * counters
local by_token = entries + 2 * items
if (call('HGET', KEYS[1], 'config') or '') ~= ARGV[1] then return { 'long' } end
for key = 1, keys do
  if call('HEXISTS', KEYS[2], sub(ARGV[8], 16 * key - 15, 16 * key)) == 0 then return { 'long' } end
end
local tokens, numbers = {}, {}
for n = 1, items do
  tokens[n] = ARGV[by_token + 2 * n - 1]
  numbers[n] = ARGV[entries + 2 * n - 1]
end
local known, seen, others = call('HMGET', KEYS[2], unpack(tokens)), call('HMGET', KEYS[3], unpack(tokens)), { 'other' }
for n = 1, items do
  if known[n] or seen[n] then others[#others + 1] = n - 1 end
end
if #others > 1 then return others end
local from = 1
for page = 1, pages do
  local to = from + tonumber(ARGV[8 + 2 * page]) - 1
  for _, entry in ipairs(call('HMGET', KEYS[5 + page], unpack(numbers, from, to))) do
    if entry then return { 'long' } end
  end
  from = to + 1
end

from = 1
for page = 1, pages do
  local to = from + tonumber(ARGV[8 + 2 * page]) - 1
  call('HSET', KEYS[5 + page], unpack(ARGV, entries + 2 * from - 1, entries + 2 * to))
  call('ZADD', KEYS[4], ARGV[7 + 2 * page], ARGV[7 + 2 * page])
  from = to + 1
end
call('HSET', KEYS[3], unpack(ARGV, by_token + 1, by_token + 2 * items))
local at, most = by_token + 2 * items + 1, tonumber(ARGV[6])
for key = 1, keys do
  local count, length = tonumber(ARGV[at]), 0
  if count == 1 then
    length = call('RPUSH', KEYS[5 + pages + key], numbers[tonumber(ARGV[at + 1])])
  else
    local own = {}
    for n = 1, count do own[n] = numbers[tonumber(ARGV[at + n])] end
    length = call('RPUSH', KEYS[5 + pages + key], unpack(own))
  end
  if length > most then call('SADD', KEYS[5], sub(ARGV[7], 32 * key - 31, 32 * key)) end
  at = at + 1 + count
end
for counter = 1, counters do
  call('HINCRBY', KEYS[1], ARGV[of_counters + 2 * counter - 1], ARGV[of_counters + 2 * counter])
end
return 1
