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
--       6 what the record of birth of such a job begins with, or, if it has one, its head: the first byte and the next
--         three are meant  7 what its head begins with then: a byte if its rest is where the job was born, one if the
--         rest follows, and what is the same for all
--       8 the claim as it is kept, but for its jobs  9 end of the leases  10 when the claim may be forgotten
--       11 member of leases  12 how many places there are  13 all of them, with a comma before and after each
--       14 of how many jobs at most their records are given: of more they are asked for outside, for a script takes longer
--         over a long text than the server over all else
--       then for each order of dispatch: priority; its member of places; fields of the numbers of jobs that wait and run
--       (2,000 values are unpacked at most)
-- Gives { 'done', seconds, microseconds, { all ids, place of a job, head or '', spec or '', … },
--       { place that has no more jobs, … } } with heads as they were before; who is not told of has no head, and its spec
--       has to be asked for,
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

local max, orders, whole = tonumber(ARGV[5]), #KEYS - 8, tonumber(ARGV[14])
local ids, packed, damaged = {}, {}, false

-- The first due jobs of an order of dispatch, so many if there are: ids, for each its member (`pack.rs` says what that is
-- of a pack), and of each member how many jobs there are up to its end, and the moment.
local function first(key, most)
  local found, from, count = { ids = {}, of = {}, members = {}, ends = {}, moments = {} }, 0, 8
  local ids, of, n, members = found.ids, found.of, 0, 0
  while n < most do
    local part = call('ZRANGEBYSCORE', key, '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', from, count)
    for m = 1, #part, 2 do
      local member = part[m]
      -- What is neither a job by itself nor a pack is for the long way to pass over.
      local is_pack = (#member - 25) % 18 == 0 and string.byte(member, #member) == 112
      if #member < 24 or (#member > 24 and not is_pack) then
        damaged = true
        return found
      end
      n, members = n + 1, members + 1
      ids[n], of[n] = sub(member, 9, 24), members
      for at = 27, #member - 16, 18 do
        n = n + 1
        ids[n], of[n] = sub(member, at, at + 15), members
      end
      found.members[members], found.ends[members], found.moments[members] = member, n, part[m + 1]
      if n >= most then break end
    end
    if #part < 2 * count then break end
    from, count = from + count, count * 2
  end
  return found
end
-- The number of arrival of a job in a member: 0 for the first, and so on.
local function arrival(member, place)
  local seq = struct.unpack('>I8', member)
  if place == 0 then return seq end
  return seq + (struct.unpack('>I2', member, 7 + 18 * place) - seq) % 65536
end
-- Moment and number of arrival of a job that was found.
local function due(found, n)
  local m = found.of[n]
  return tonumber(found.moments[m]), arrival(found.members[m], n - 1 - (found.ends[m - 1] or 0))
end
-- Takes the first jobs out of an order of dispatch.
local function drop(key, found, count)
  local member = 1
  while found.ends[member] and found.ends[member] <= count do member = member + 1 end
  local before = found.ends[member - 1] or 0
  if count == before then
    if member > 1 then call('ZREMRANGEBYRANK', key, 0, member - 2) end
    return
  end
  -- The rest of a pack stays.
  local pack, place = found.members[member], count - before
  local rest = struct.pack('>I8', arrival(pack, place)) .. sub(pack, 9 + 18 * place)
  call('ZREMRANGEBYRANK', key, 0, member - 1)
  call('ZADD', key, found.moments[member], rest)
end

local taken, order = {}, 1
while order <= orders and #ids < max do
  local last = order
  while last < orders and ARGV[15 + 4 * last] == ARGV[11 + 4 * order] do last = last + 1 end
  local left = max - #ids
  if last == order then
    local found = first(KEYS[8 + order], left)
    local count = math.min(#found.ids, left)
    local own, of, members, before = found.ids, found.of, found.members, #ids
    for n = 1, count do
      ids[before + n], packed[before + n] = own[n], #members[of[n]] > 24
    end
    taken[order] = { found, count }
  else
    -- Several lanes of one priority: the one whose first job is due longest gives it, and again.
    local found, at = {}, {}
    for n = order, last do
      found[n], at[n] = first(KEYS[8 + n], left), 0
    end
    while left > 0 do
      local best
      for n = order, last do
        local place = at[n] + 1
        if found[n].ids[place] then
          local moment, seq = due(found[n], place)
          if not best or moment < best.moment or (moment == best.moment and seq < best.seq) then
            best = { order = n, moment = moment, seq = seq }
          end
        end
      end
      if not best then break end
      local n = best.order
      at[n] = at[n] + 1
      ids[#ids + 1] = found[n].ids[at[n]]
      packed[#ids] = #found[n].members[found[n].of[at[n]]] > 24
      left = left - 1
    end
    for n = order, last do taken[n] = { found[n], at[n] } end
  end
  order = last + 1
end
if damaged then return { 'long' } end
local jobs = #ids
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

local born, fresh = string.byte(ARGV[6]), sub(ARGV[6], 2)
local short, long = sub(ARGV[7], 1, 1) .. sub(ARGV[7], 3), sub(ARGV[7], 2)
local heads, asked, specs = call('HMGET', KEYS[7], unpack(ids)), {}, {}
-- Of whoever is in a pack and has no head it is known what it is.
for n = 1, jobs do
  if jobs <= whole or heads[n] or not packed[n] then asked[#asked + 1] = n end
end
if #asked > 0 then
  local wanted = {}
  for n = 1, #asked do wanted[n] = ids[asked[n]] end
  local found = call('HMGET', KEYS[8], unpack(wanted))
  for n = 1, #asked do specs[asked[n]] = found[n] end
end
local after, given = {}, { table.concat(ids) }
for n = 1, jobs do
  local head, spec = heads[n], specs[n]
  after[2 * n - 1] = ids[n]
  if head and spec and sub(head, 1, 3) == fresh then
    after[2 * n] = long .. sub(head, 4)
  elseif not head and ((packed[n] and spec == nil) or (spec and string.byte(spec) == born)) then
    after[2 * n] = short
  else
    return { 'long' }
  end
  if head or spec then
    local last = #given
    given[last + 1], given[last + 2], given[last + 3] = n - 1, head or '', spec or ''
  end
end
call('HSET', KEYS[7], unpack(after))
local empty = {}
for n = 1, orders do
  if taken[n] and taken[n][2] > 0 then
    local key, field, count = KEYS[8 + n], 11 + 4 * n, taken[n][2]
    drop(key, taken[n][1], count)
    if call('EXISTS', key) == 0 then
      call('SREM', KEYS[5], ARGV[field + 1])
      empty[#empty + 1] = ARGV[field + 1]
    end
    call('HINCRBY', KEYS[6], ARGV[field + 2], -count)
    call('HINCRBY', KEYS[6], ARGV[field + 3], count)
  end
end
call('HSET', KEYS[3], ARGV[4], ARGV[8] .. given[1])
call('ZADD', KEYS[4], ARGV[10], ARGV[4])
call('ZADD', KEYS[2], ARGV[9], ARGV[11])
return { 'done', time[1], time[2], given, empty }
