-- read: several commands that only read, in one instant. For a server without room, which refuses MULTI.
--
-- Atomic: yes. Writes nothing.
-- KEYS  every key that is read, all of one hash tag
-- ARGV  commands, each: how many arguments follow its name and key; name; key; arguments
--       keys are given by their place in KEYS
-- Gives the answer of each command.
local answers, at = {}, 1
while at <= #ARGV do
  local count, name, key = tonumber(ARGV[at]), ARGV[at + 1], KEYS[tonumber(ARGV[at + 2])]
  answers[#answers + 1] = redis.call(name, key, unpack(ARGV, at + 3, at + 2 + count))
  at = at + 3 + count
end
return answers
