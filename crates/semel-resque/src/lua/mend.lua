-- mend: makes the three structures of a unique queue agree again. The list is the truth.
--
-- Runs inside the other scripts, before they touch a unique queue; `force` compares every payload even where the
-- lengths agree. A payload that is in the list twice stays once: the queue is unique.
-- Gives how many structures were out of step, 0 or 1, and how many repeated payloads were dropped.
local call = redis.call
local function mend(queue, set, starts, force)
  local length = call('LLEN', queue)
  local agree = length == call('SCARD', set) and length == call('LLEN', starts)
  if agree and not force then return 0, 0 end
  local payloads, times, now = call('LRANGE', queue, 0, -1), call('LRANGE', starts, 0, -1), call('TIME')[1]
  for _, payload in ipairs(payloads) do
    if call('SISMEMBER', set, payload) == 0 then agree = false end
  end
  if agree then return 0, 0 end
  call('DEL', queue, set, starts)
  local dropped = 0
  for n, payload in ipairs(payloads) do
    if call('SADD', set, payload) == 1 then
      call('RPUSH', queue, payload)
      call('RPUSH', starts, times[n] or now)
    else
      dropped = dropped + 1
    end
  end
  return 1, dropped
end
