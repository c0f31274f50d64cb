-- push: gives payloads to a queue of Resque, each once.
--
-- Atomic: yes. What was pushed is remembered under the id of its job until `forget` says that the job is settled, so
-- a second delivery of the job pushes nothing.
-- KEYS  1 queues  2 queue  3 its set of payloads  4 its list of times  5 what was pushed
-- ARGV  1 '1' if the queue is unique  2 name of the queue  3… pairs of an id and a payload
-- Gives { out of step, dropped, answer, … }, each answer 'pushed', 'absorbed' (the payload is in the unique queue), or 'again'.
local mended, dropped = 0, 0
if ARGV[1] == '1' then mended, dropped = mend(KEYS[2], KEYS[3], KEYS[4], false) end
local answers, now = { mended, dropped }, call('TIME')[1]
call('SADD', KEYS[1], ARGV[2])
for n = 3, #ARGV, 2 do
  local answer = 'pushed'
  if call('HEXISTS', KEYS[5], ARGV[n]) == 1 then
    answer = 'again'
  elseif ARGV[1] == '1' and call('SADD', KEYS[3], ARGV[n + 1]) == 0 then
    answer = 'absorbed'
  else
    call('RPUSH', KEYS[2], ARGV[n + 1])
    if ARGV[1] == '1' then call('RPUSH', KEYS[4], now) end
  end
  if answer ~= 'again' then call('HSET', KEYS[5], ARGV[n], now) end
  answers[#answers + 1] = answer
end
return answers
