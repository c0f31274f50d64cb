-- submit: admits new jobs of one lane, priority and kind of hold, each only if its id and its token are new and nobody
-- has ever taken its key, or whoever did is gone. That alone is looked at here; what such a job is to be was asked of
-- core before. Whatever is not so is left out and named, to be judged the long way.
--
-- Atomic: yes. Nothing is written unless lanes, settings, numbers and clock are as believed.
-- A call that is repeated, or comes late, finds its own jobs and leaves them out.
-- KEYS  1 meta  2 leases  3 specs  4 tokens  5 ready  6 places  7 chunks
--       then one for each chunk of the order of arrival, one for each tally, and, if the jobs have keys, the hash of
--       owners for each job
-- ARGV  1 the time of the decision in milliseconds: no lease may have run out by then
--       2 how many milliseconds the server's clock may be away from it; '' for a clock of tests
--       3 version of lanes and settings; '' if there is none
--       4 the number of arrival nobody may have drawn after; '' if the numbers used here were drawn before. Numbers up
--         to it that nobody has drawn stay gaps: they are on their way, or never came. Below 0: without the sign it is
--         the last number drawn, and nothing else will do
--       5 the last number of arrival after this call
--       6 channel  7 message  8 member of places  9 owner of a key, but for the id; '' if the jobs have no keys
--       10 jobs  11 chunks  12 tallies
--       then for each chunk: its number; how many jobs
--       for each tally: the field that each job adds one to
--       for each job, if they have keys: digest
--       for each job: id; record of birth        for each job: score; member
--       (2,000 values are unpacked at most)
-- Gives { 'done', seconds, microseconds, places of the jobs that were left out… },
--       or { 'again', seconds, microseconds, last number of arrival }: numbers or clock were not as believed,
--       or { 'long' }: lanes or settings have changed, or a lease has run out.
local call, sub = redis.call, string.sub
local meta = call('HMGET', KEYS[1], 'config', 'seq')
if (meta[1] or '') ~= ARGV[3] then return { 'long' } end
local now = tonumber(ARGV[1])
local soonest = call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
if soonest and tonumber(soonest) <= now then return { 'long' } end
local time = call('TIME')
local away = ARGV[2] ~= '' and math.abs(time[1] * 1000 + time[2] / 1000 - now) > tonumber(ARGV[2])
local drawn, presumed = tonumber(meta[2] or '0'), tonumber(ARGV[4])
if away or (presumed and (drawn > math.abs(presumed) or drawn < -presumed)) then
  return { 'again', time[1], time[2], meta[2] or '0' }
end
local owner, jobs, chunks, tallies = ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
local digests = 12 + 2 * chunks + tallies
local births = digests
if owner ~= '' then births = digests + jobs end
local places = births + 2 * jobs
local owners = 7 + chunks + tallies

-- One for the tokens, two for the order of dispatch.
local there = call('EXISTS', KEYS[4], KEYS[5], KEYS[5])
local answer, left_out, out = { 'done', time[1], time[2] }, {}, 0
local ids = {}
for n = 1, jobs do ids[n] = ARGV[births + 2 * n - 1] end
local known = call('HMGET', KEYS[3], unpack(ids))
local seen = {}
if there % 2 == 1 then seen = call('HMGET', KEYS[4], unpack(ids)) end
for n = 1, jobs do
  if known[n] or seen[n]
    or (owner ~= '' and call('HSETNX', KEYS[owners + n], ARGV[digests + n], owner .. ids[n]) == 0) then
    out = out + 1
    answer[3 + out] = n - 1
    left_out[n] = true
  end
end
if presumed then call('HSET', KEYS[1], 'seq', ARGV[5]) end
if out == jobs then return answer end

if out == 0 then
  call('HSET', KEYS[3], unpack(ARGV, births + 1, places))
  call('ZADD', KEYS[5], unpack(ARGV, places + 1, places + 2 * jobs))
else
  local function taken(from)
    local pairs, last = {}, 0
    for n = 1, jobs do
      if not left_out[n] then
        pairs[last + 1], pairs[last + 2] = ARGV[from + 2 * n - 1], ARGV[from + 2 * n]
        last = last + 2
      end
    end
    return pairs
  end
  call('HSET', KEYS[3], unpack(taken(births)))
  call('ZADD', KEYS[5], unpack(taken(places)))
end
local first = 0
for chunk = 1, chunks do
  local arrived, last = {}, first + tonumber(ARGV[12 + 2 * chunk])
  for n = first + 1, last do
    if not left_out[n] then arrived[#arrived + 1] = sub(ARGV[places + 2 * n], 8) end
  end
  if #arrived > 0 then
    -- A chunk that had jobs before is known.
    if call('RPUSH', KEYS[7 + chunk], unpack(arrived)) == #arrived then
      call('ZADD', KEYS[7], ARGV[11 + 2 * chunk], ARGV[11 + 2 * chunk])
    end
  end
  first = last
end
for tally = 1, tallies do
  call('HINCRBY', KEYS[7 + chunks + tally], ARGV[12 + 2 * chunks + tally], jobs - out)
end
if there < 2 then call('SADD', KEYS[6], ARGV[8]) end
call('PUBLISH', ARGV[6], ARGV[7])
return answer
