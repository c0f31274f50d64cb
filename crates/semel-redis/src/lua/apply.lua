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
--         '@forget'   key = a collection; arguments: key of an index, 'SREM', 'ZREM' or 'HDEL', its member:
--                     takes the member out of the index if the collection is empty
--         '@copy'     key = a collection; argument: key of the one it is copied over
--         '@publish'  key = 0; arguments: channel, message
--         '@place'    key = an order of dispatch; arguments: score, member of a job by itself: puts it there; a pack
--                     that spans its place is parted (`pack.rs` says what a pack is)
--         '@restore'  key = a hash that has lost its name; argument: key of that name: gives it back, and takes in what
--                     came to be under the name since
--         '@strike'   key = a chunk of the order of arrival; arguments: jobs by themselves: takes them out, whether they
--                     are there by themselves or with those that came together with them
--         '@thin'     key = ledger entries of a key; arguments: key of the totals, the digest, numbers of entries: takes them
--                     out, and counts those that were there among the gone ones
--         '@take'     key = an order of dispatch; arguments: score and member of a job, and again: takes them out,
--                     whether they are there by themselves or in a pack
--       keys are given by their place in KEYS; no command has more arguments than unpack takes
-- Gives 'applied', 'before' (by the same call), or 'conflict'.
local call, sub, byte = redis.call, string.sub, string.byte
local applied = KEYS[#KEYS]

local function is_pack(member)
  return #member > 24 and (#member - 25) % 18 == 0 and byte(member, #member) == 112
end
-- The jobs of a pack: for each the last two bytes of its arrival and its id.
local function unpacked(pack)
  local jobs = { sub(pack, 7, 24) }
  for at = 25, #pack - 18, 18 do jobs[#jobs + 1] = sub(pack, at, at + 17) end
  return jobs
end
-- How much later a job arrived than the first of its pack, of both of which the last two bytes are known.
local function later(job, first)
  return (byte(job, 1) * 256 + byte(job, 2) - byte(first, 1) * 256 - byte(first, 2)) % 65536
end
-- A pack of some of these jobs, which are in their order.
local function packed(pack, jobs, from, to)
  local first = struct.unpack('>I8', pack) + later(jobs[from], jobs[1])
  return struct.pack('>I8', first) .. sub(jobs[from], 3) .. table.concat(jobs, '', from + 1, to) .. 'p'
end

local function place(key, score, member)
  call('ZADD', key, score, member)
  local rank = call('ZRANK', key, member)
  if rank == 0 then return end
  local before = call('ZRANGE', key, rank - 1, rank - 1, 'WITHSCORES')
  local pack = before[1]
  if not is_pack(pack) or tonumber(before[2]) ~= tonumber(score) then return end
  local jobs, all = unpacked(pack), 0
  local own = struct.unpack('>I8', member) - struct.unpack('>I8', pack)
  while all < #jobs and later(jobs[all + 1], jobs[1]) < own do all = all + 1 end
  if all < #jobs then
    call('ZREM', key, pack)
    call('ZADD', key, score, packed(pack, jobs, 1, all), score, packed(pack, jobs, all + 1, #jobs))
  end
end

-- The pack that a job is in: it begins with the job, or is the last one before it.
local function pack_of(key, score, member)
  call('ZADD', key, score, member)
  local rank = call('ZRANK', key, member)
  local near = call('ZRANGE', key, math.max(rank - 1, 0), rank + 1, 'WITHSCORES')
  call('ZREM', key, member)
  for n = #near - 1, 1, -2 do
    local pack = near[n]
    if is_pack(pack) and tonumber(near[n + 1]) == tonumber(score) then
      local jobs = unpacked(pack)
      for _, job in ipairs(jobs) do
        if job == sub(member, 7) then return pack, jobs end
      end
    end
  end
end

local function take(key, places)
  local at = 1
  while at < #places do
    local score = places[at]
    if call('ZREM', key, places[at + 1]) == 0 then
      local pack, jobs = pack_of(key, score, places[at + 1])
      if pack then
        local gone, left = { [sub(places[at + 1], 7)] = true }, {}
        -- Those that follow are in the same pack as a rule.
        local is_in = {}
        for _, job in ipairs(jobs) do is_in[job] = true end
        while places[at + 3] and places[at + 2] == score and is_in[sub(places[at + 3], 7)] do
          at = at + 2
          gone[sub(places[at + 1], 7)] = true
        end
        for _, job in ipairs(jobs) do
          if not gone[job] then left[#left + 1] = job end
        end
        call('ZREM', key, pack)
        if #left > 0 then
          local first = struct.unpack('>I8', pack) + later(left[1], jobs[1])
          call('ZADD', key, score, packed(struct.pack('>I8', first), left, 1, #left))
        end
      end
    end
    at = at + 2
  end
end

local function strike(key, arrivals)
  local entries = call('LRANGE', key, 0, -1)
  local changed = {}
  for _, arrival in ipairs(arrivals) do
    if call('LREM', key, 1, arrival) == 0 then
      for _, entry in ipairs(entries) do
        local left = changed[entry] or entry
        -- Each begins with a byte that a job by itself has not.
        local at = #entry % 18 == 0 and string.find(left, arrival, 1, true)
        while at and at % 18 ~= 2 do at = string.find(left, arrival, at + 1, true) end
        if at then
          changed[entry] = sub(left, 1, at - 2) .. sub(left, at + 17)
          break
        end
      end
    end
  end
  for entry, left in pairs(changed) do
    call('LREM', key, 1, entry)
    if left ~= '' then call('RPUSH', key, left) end
  end
end

local function restore(key, name)
  if call('HEXISTS', key, '') == 0 then return end
  local since = call('HGETALL', name)
  for n = 1, #since, 2 do call('HSET', key, since[n], since[n + 1]) end
  call('RENAME', key, name)
end

local function thin(key, totals, digest, numbers)
  local gone = 0
  for _, number in ipairs(numbers) do gone = gone + call('LREM', key, 1, number) end
  if gone > 0 then call('HINCRBY', totals, digest, gone) end
end

if tonumber(call('GET', applied) or '0') >= tonumber(ARGV[1]) then return 'before' end
local at = 3
for _ = 1, tonumber(ARGV[2]) do
  local count = tonumber(ARGV[at + 1])
  local found = call('HMGET', KEYS[tonumber(ARGV[at])], unpack(ARGV, at + 2, at + 1 + count))
  local there = ARGV[at + 2 + count]
  at = at + 3 + count
  for n = 1, count do
    if byte(there, n) == 49 then
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
  elseif name == '@place' then
    place(KEYS[key], ARGV[at], ARGV[at + 1])
  elseif name == '@restore' then
    restore(KEYS[key], KEYS[tonumber(ARGV[at])])
  elseif name == '@strike' then
    strike(KEYS[key], { unpack(ARGV, at, at + count - 1) })
  elseif name == '@thin' then
    thin(KEYS[key], KEYS[tonumber(ARGV[at])], ARGV[at + 1], { unpack(ARGV, at + 2, at + count - 1) })
  elseif name == '@take' then
    take(KEYS[key], { unpack(ARGV, at, at + count - 1) })
  elseif name == '@publish' then
    call('PUBLISH', ARGV[at], ARGV[at + 1])
  else
    call(name, KEYS[key], unpack(ARGV, at, at + count - 1))
  end
  at = at + count
end
return 'applied'
