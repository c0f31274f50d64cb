-- take: moves payloads from a queue of Resque to those under way, each under a token.
--
-- Atomic: yes. A payload is either in the queue or under way.
-- KEYS  1 queue  2 its set of payloads  3 its list of times  4 under way
-- ARGV  1 '1' if the queue is unique  2 '1' to compare every payload first  3… tokens
-- Gives { out of step, dropped, token, time or '', payload, token, … }.
local mended, dropped = 0, 0
if ARGV[1] == '1' then mended, dropped = mend(KEYS[1], KEYS[2], KEYS[3], ARGV[2] == '1') end
local taken = { mended, dropped }
for n = 3, #ARGV do
  local payload = call('LPOP', KEYS[1])
  if not payload then break end
  local time = ''
  if ARGV[1] == '1' then
    call('SREM', KEYS[2], payload)
    time = call('LPOP', KEYS[3]) or ''
  end
  call('HSET', KEYS[4], ARGV[n], time .. ' ' .. payload)
  taken[#taken + 1] = ARGV[n]
  taken[#taken + 1] = time
  taken[#taken + 1] = payload
end
return taken
