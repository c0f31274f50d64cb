-- settle: jobs that were leased together, are as they were leased, and are followed by nobody, are complete. What their
-- heads begin with then was asked of core; it is the same for all of them.
--
-- Atomic: yes. Nothing is written unless all of it holds for all jobs.
-- A call that is repeated, or comes late, finds the jobs ended and writes nothing.
-- KEYS  1 meta  2 leases  3 heads  4 followers  5 completed  6 outputs, then one for each tally
-- ARGV  1 the time of the decision in milliseconds: no lease may have run out by then
--       2 how many milliseconds the server's clock may be away from it; '' for a clock of tests
--       3 version of lanes and settings; '' if there is none
--       4 channel  5 message
--       6 their heads as they are now, if the rest of each is where the job was born  7 as they are then; of any other
--         head the first byte and what comes after this stay
--       8 member of leases that watches none but these; '' if it watches others too
--       9 jobs  10 tallies  11 outputs: none, or as many as jobs
--       12 the moment they ended at, as it is kept
--       then for each tally: field; by how much
--       for each job: id        for each output: id; output
--       (2,000 values are unpacked at most)
-- Gives { 'done', seconds, microseconds },
--       or { 'again', seconds, microseconds }: the clock is not as believed,
--       or { 'other', places of the jobs that are not as they were leased, or are followed… },
--       or { 'long' }: lanes or settings have changed, or a lease has run out.
local call, sub = redis.call, string.sub
if (call('HGET', KEYS[1], 'config') or '') ~= ARGV[3] then return { 'long' } end
local now = tonumber(ARGV[1])
local soonest = call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
if soonest and tonumber(soonest) <= now then return { 'long' } end
local time = call('TIME')
if ARGV[2] ~= '' and math.abs(time[1] * 1000 + time[2] / 1000 - now) > tonumber(ARGV[2]) then
  return { 'again', time[1], time[2] }
end
local leased, ended, jobs, tallies = ARGV[6], ARGV[7], tonumber(ARGV[9]), tonumber(ARGV[10])
local ids = 12 + 2 * tallies
local long, turn, turned = #leased, sub(leased, 2), sub(ended, 2)
local heads = call('HMGET', KEYS[3], unpack(ARGV, ids + 1, ids + jobs))
local followed = {}
if call('EXISTS', KEYS[4]) == 1 then followed = call('HMGET', KEYS[4], unpack(ARGV, ids + 1, ids + jobs)) end
local others, after = { 'other' }, {}
for n = 1, jobs do
  local head = heads[n]
  after[2 * n - 1] = ARGV[ids + n]
  if followed[n] then
    others[#others + 1] = n - 1
  elseif head == leased then
    after[2 * n] = ended
  elseif head and sub(head, 2, long) == turn then
    after[2 * n] = sub(head, 1, 1) .. turned .. sub(head, long + 1)
  else
    others[#others + 1] = n - 1
  end
end
if #others > 1 then return others end
call('HSET', KEYS[3], unpack(after))
for from = ids + 1, ids + jobs, 128 do
  call('RPUSH', KEYS[5], ARGV[12] .. table.concat(ARGV, '', from, math.min(from + 127, ids + jobs)))
end
if ARGV[11] ~= '0' then call('HSET', KEYS[6], unpack(ARGV, ids + jobs + 1, ids + 3 * jobs)) end
if ARGV[8] ~= '' then call('ZREM', KEYS[2], ARGV[8]) end
for tally = 1, tallies do
  call('HINCRBY', KEYS[6 + tally], ARGV[11 + 2 * tally], ARGV[12 + 2 * tally])
end
call('PUBLISH', ARGV[4], ARGV[5])
return { 'done', time[1], time[2] }
