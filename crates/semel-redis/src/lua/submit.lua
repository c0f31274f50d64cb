-- submit: admits new jobs of one lane, priority and kind of hold, each only if its id and its token are new and nobody
-- has ever taken its key, or whoever did is gone. That alone is looked at here; what such a job is to be was asked of
-- core before. Whatever is not so is left out and named, to be judged the long way.
--
-- The records of the jobs do not come through here: a script takes longer over a long text than the server over all
-- else. They are written by a plain command after this script, in one transaction:
--   MULTI; HSETNX specs ''; submit; HSET incoming id record …; RENAMENX incoming specs; close; EXEC
-- If it admits anybody, the records of all jobs go by the name `incoming` from then on, and get their name back behind
-- it. If it does not, or fails, or is not even run, the plain command writes where nobody looks: as there always is a
-- hash `specs`, with at least the empty field, nothing gets its name, and `close` removes it. A transaction is not undone
-- when one of its commands is refused; but of plain ones none is, and so the records are never without their name.
-- What is to be taken back in spite of that, records of jobs that were left out, is noted: `close.lua` does it. If that
-- is refused, nothing is admitted here and no other step begins before somebody has done it.
-- It may not admit beside a job whose id is known, for that one's record would be written over.
--
-- Atomic: yes. Nothing is written unless lanes, settings, numbers and clock are as believed.
-- A call that is repeated, or comes late, finds its own jobs, and writes nothing.
-- KEYS  1 meta  2 specs  3 incoming  4 left_out  5 leases  6 tokens  7 ready  8 places  9 chunks
--       then one for each chunk of the order of arrival, one for each tally, and, if the jobs have keys, the hash of
--       owners for each job
-- ARGV  1 the time of the decision in milliseconds: no lease may have run out by then
--       2 how many milliseconds the server's clock may be away from it; '' for a clock of tests
--       3 version of lanes and settings; '' if there is none
--       4 the number of arrival nobody may have drawn after; '' if the numbers used here were drawn before. Numbers up
--         to it that nobody has drawn stay gaps: they are on their way, or never came. Below 0: without the sign it is
--         the last number drawn, and nothing else will do
--       5 the last number of arrival after this call
--       6 channel  7 message  8 member of places  9 '' if the jobs have no keys, else of all keys what they are called
--         among the owners, 16 bytes each, in one text: so many short ones cost more
--       10 jobs  11 chunks  12 tallies  13 '' , or the score of the pack that all jobs share  14 that pack, or ''
--       then for each chunk: its number; how many jobs
--       for each tally: the field that each job adds one to
--       for each job, if they share no pack: score; member
--       (2,000 values are unpacked at most)
-- Gives { 'done', seconds, microseconds, places of the jobs that were left out… },
--       or { 'again', seconds, microseconds, last number of arrival }: numbers or clock were not as believed,
--       or { 'other', places of the jobs whose id or token is known… }: nobody was admitted,
--       or { 'long' }: lanes or settings have changed, or a lease has run out.
local call, sub = redis.call, string.sub
local meta = call('HMGET', KEYS[1], 'config', 'seq', 'packed_to', 'admitting')
if (meta[1] or '') ~= ARGV[3] or meta[4] then return { 'long' } end
local now = tonumber(ARGV[1])
local soonest = call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2]
if soonest and tonumber(soonest) <= now then return { 'long' } end
local time = call('TIME')
local away = ARGV[2] ~= '' and math.abs(time[1] * 1000 + time[2] / 1000 - now) > tonumber(ARGV[2])
local drawn, presumed = tonumber(meta[2] or '0'), tonumber(ARGV[4])
if away or (presumed and (drawn > math.abs(presumed) or drawn < -presumed)) then
  return { 'again', time[1], time[2], meta[2] or '0' }
end
local digests, jobs, chunks, tallies = ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
local score, pack = ARGV[13], ARGV[14]
local places = 14 + 2 * chunks + tallies
local owners = 9 + chunks + tallies

-- Of each job the last two bytes of its arrival and its id, behind each other: with those before the end of its pack.
local entries = sub(pack, 7, -2)
if pack == '' then
  local own = {}
  for n = 1, jobs do own[n] = sub(ARGV[places + 2 * n], 7) end
  entries = table.concat(own)
end
local ids = {}
for n = 1, jobs do ids[n] = sub(entries, 18 * n - 15, 18 * n) end
-- One for the tokens, two for the order of dispatch, four for what may be in the way of the records.
local there = call('EXISTS', KEYS[6], KEYS[7], KEYS[7], KEYS[3], KEYS[3], KEYS[3], KEYS[3])
if there >= 4 and call('HEXISTS', KEYS[3], '') == 1 then
  -- They have lost their name, which takes a transaction that was none.
  local since = call('HGETALL', KEYS[2])
  for n = 1, #since, 2 do call('HSET', KEYS[3], since[n], since[n + 1]) end
  call('RENAME', KEYS[3], KEYS[2])
  return { 'long' }
end
local known, seen, others = call('HMGET', KEYS[2], unpack(ids)), {}, { 'other' }
if there % 2 == 1 then seen = call('HMGET', KEYS[6], unpack(ids)) end
for n = 1, jobs do
  if known[n] or seen[n] then others[#others + 1] = n - 1 end
end
if #others > 1 then return others end
local answer, left_out, out = { 'done', time[1], time[2] }, {}, 0
if digests ~= '' then
  for n = 1, jobs do
    if call('HSETNX', KEYS[owners + n], sub(digests, 16 * n - 15, 16 * n), ids[n]) == 0 then
      out = out + 1
      answer[3 + out] = n - 1
      left_out[n] = true
    end
  end
end
if presumed then call('HSET', KEYS[1], 'seq', ARGV[5]) end
if out == jobs then return answer end

if out > 0 then
  call('HSET', KEYS[1], 'admitting', out)
  call('DEL', KEYS[4])
  for n = 1, jobs do
    if left_out[n] then call('RPUSH', KEYS[4], ids[n]) end
  end
end
-- What there is of jobs in a row, but for those that were left out.
local function those(from, to)
  if out == 0 then return sub(entries, 18 * from - 17, 18 * to) end
  local kept = {}
  for n = from, to do
    if not left_out[n] then kept[#kept + 1] = sub(entries, 18 * n - 17, 18 * n) end
  end
  return table.concat(kept)
end
if pack ~= '' then
  if out > 0 then
    local kept = those(1, jobs)
    local first = struct.unpack('>I2', kept)
    local seq = struct.unpack('>I8', pack)
    pack = struct.pack('>I8', seq + (first - seq) % 65536) .. sub(kept, 3) .. 'p'
  end
  call('ZADD', KEYS[7], score, pack)
  -- Until when there may be a pack: whoever counts members knows that before it they are not jobs.
  if tonumber(score) > tonumber(meta[3] or '0') then call('HSET', KEYS[1], 'packed_to', score) end
else
  local pairs = {}
  for n = 1, jobs do
    if not left_out[n] then
      pairs[#pairs + 1] = ARGV[places + 2 * n - 1]
      pairs[#pairs + 1] = ARGV[places + 2 * n]
    end
  end
  call('ZADD', KEYS[7], unpack(pairs))
end
local first = 0
for chunk = 1, chunks do
  local last = first + tonumber(ARGV[14 + 2 * chunk])
  local arrived = those(first + 1, last)
  -- A chunk that had jobs before is known.
  if arrived ~= '' and call('RPUSH', KEYS[9 + chunk], arrived) == 1 then
    call('ZADD', KEYS[9], ARGV[13 + 2 * chunk], ARGV[13 + 2 * chunk])
  end
  first = last
end
for tally = 1, tallies do
  call('HINCRBY', KEYS[9 + chunks + tally], ARGV[14 + 2 * chunks + tally], jobs - out)
end
if there % 4 < 2 then call('SADD', KEYS[8], ARGV[8]) end
call('PUBLISH', ARGV[6], ARGV[7])
-- Last of all: after an error above nobody has a record.
call('RENAME', KEYS[2], KEYS[3])
return answer
