-- claim: leases the best due jobs, if all of them wait for their first lease and have their keys in a way that neither
-- the lease nor time changes. What the head of such a job begins with then was asked of core; it is the same for all.
--
-- Atomic: yes. Nothing is written unless all of it holds.
-- A call that is repeated, or comes late, finds that its claim is known and writes nothing.
-- KEYS  1 meta  2 leases  3 claims  4 claims_due  5 places  6 counts  7 heads  8 specs
--       then the orders of dispatch that may be taken from, the highest priority first
-- ARGV  1 the time of the decision in milliseconds: no lease may have run out by then
--       2 how many milliseconds the server's clock may be ahead of it; '' for a clock of tests
--       3 version of lanes and settings; '' if there is none
--       4 token of the claim  5 how many jobs at most
--       6 what the record of birth of such a job begins with, or, if it has one, its head  7 what its head begins with
--         then; the first byte and the next three of 6 are meant
--       8 the claim as it is kept, but for its jobs  9 end of the leases  10 when the claim may be forgotten
--       11 member of leases  12 how many places there are  13 all of them, with a comma before and after each
--       then for each order of dispatch: priority; its member of places; fields of the numbers of jobs that wait and run
--       (2,000 values are unpacked at most)
-- Gives { 'done', seconds, microseconds, { member, head or '', spec, … }, { place that has no more jobs, … } } with heads as
--       they were before,
--       or { 'again', seconds, microseconds }: the clock is not as believed, or there is work by that time alone,
--       or { 'places', place… }: there are other places,
--       or { 'long' }: anything else is not so, or there are more places than are compared here.
local call, sub = redis.call, string.sub
if (call('HGET', KEYS[1], 'config') or '') ~= ARGV[3] then return { 'long' } end
local now = tonumber(ARGV[1])
local soonest = call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
if soonest and tonumber(soonest) <= now then return { 'long' } end
if call('HEXISTS', KEYS[3], ARGV[4]) == 1 then return { 'long' } end
local time = call('TIME')
if ARGV[2] ~= '' then
  local ahead = time[1] * 1000 + time[2] / 1000 - now
  if ahead < 0 or ahead > tonumber(ARGV[2]) then return { 'again', time[1], time[2] } end
end
local places = call('SMEMBERS', KEYS[5])
if #places > 2000 then return { 'long' } end
local same = #places == tonumber(ARGV[12])
for n = 1, #places do same = same and string.find(ARGV[13], ',' .. places[n] .. ',', 1, true) end
if not same then return { 'places', unpack(places) } end

local max, orders = tonumber(ARGV[5]), #KEYS - 8
local members, taken, order = {}, {}, 1
while order <= orders and #members < max do
  local last = order
  while last < orders and ARGV[14 + 4 * last] == ARGV[10 + 4 * order] do last = last + 1 end
  local left = max - #members
  if last == order then
    local found = call('ZRANGEBYSCORE', KEYS[8 + order], '-inf', ARGV[1], 'LIMIT', 0, left)
    for n = 1, #found do members[#members + 1] = found[n] end
    taken[order] = #found
  else
    -- Several lanes of one priority: the one whose first job is due longest gives it, and again.
    local found, at = {}, {}
    for n = order, last do
      found[n] = call('ZRANGEBYSCORE', KEYS[8 + n], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, left)
      at[n], taken[n] = 1, 0
    end
    while left > 0 do
      local best
      for n = order, last do
        local member = found[n][at[n]]
        if member then
          local score, seq = tonumber(found[n][at[n] + 1]), struct.unpack('>I8', member)
          if not best or score < best.score or (score == best.score and seq < best.seq) then
            best = { order = n, member = member, score = score, seq = seq }
          end
        end
      end
      if not best then break end
      members[#members + 1] = best.member
      at[best.order], taken[best.order] = at[best.order] + 2, taken[best.order] + 1
      left = left - 1
    end
  end
  order = last + 1
end
local jobs = #members
if jobs == 0 then
  -- Somebody with a better idea of the time may have submitted what is due by now.
  if ARGV[2] ~= '' then
    local due = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    for n = 1, orders do
      if call('ZCOUNT', KEYS[8 + n], '-inf', due) > 0 then return { 'again', time[1], time[2] } end
    end
  end
  return { 'done', time[1], time[2], {}, {} }
end

local ids, leased, after, given = {}, ARGV[7], {}, {}
local born, fresh = string.byte(ARGV[6]), sub(ARGV[6], 2)
for n = 1, jobs do ids[n] = sub(members[n], 9) end
local heads, specs = call('HMGET', KEYS[7], unpack(ids)), call('HMGET', KEYS[8], unpack(ids))
for n = 1, jobs do
  local head, spec, rest = heads[n], specs[n], nil
  if head and spec and sub(head, 1, 3) == fresh then
    rest = sub(head, 4)
  elseif spec and not head and string.byte(spec) == born then
    rest = sub(spec, 3, 2 + string.byte(spec, 2))
  else
    return { 'long' }
  end
  after[2 * n - 1], after[2 * n] = ids[n], leased .. rest
  given[3 * n - 2], given[3 * n - 1], given[3 * n] = members[n], head or '', spec
end
call('HSET', KEYS[7], unpack(after))
local empty = {}
for n = 1, orders do
  if taken[n] and taken[n] > 0 then
    local key, field = KEYS[8 + n], 10 + 4 * n
    call('ZREMRANGEBYRANK', key, 0, taken[n] - 1)
    if call('EXISTS', key) == 0 then
      call('SREM', KEYS[5], ARGV[field + 1])
      empty[#empty + 1] = ARGV[field + 1]
    end
    call('HINCRBY', KEYS[6], ARGV[field + 2], -taken[n])
    call('HINCRBY', KEYS[6], ARGV[field + 3], taken[n])
  end
end
call('HSET', KEYS[3], ARGV[4], ARGV[8] .. table.concat(ids))
call('ZADD', KEYS[4], ARGV[10], ARGV[4])
call('ZADD', KEYS[2], ARGV[9], ARGV[11])
return { 'done', time[1], time[2], given, empty }
