-- probe: runs every command that the other scripts use, and those that stand beside them in a transaction, so that a
-- user who may not learns it before anything is written: what is refused in its middle would leave its first half.
--
-- Atomic: yes. Leaves nothing.
-- KEYS  1 and 2 names that nothing else has, of the hash tag of the shard
-- ARGV  1 channel  2 message that says nothing
-- Gives 'allowed', or the error of the first command that is refused, with its name.
local key, other = KEYS[1], KEYS[2]
local commands = {
  { 'TIME' },
  { 'DEL', key, other },
  { 'SET', key, '1', 'EX', 60 },
  { 'GET', key },
  { 'EXISTS', key },
  { 'COPY', key, other, 'REPLACE' },
  { 'RENAME', other, key },
  { 'RENAMENX', key, other },
  { 'DEL', key, other },
  { 'HSET', key, 'a', '1' },
  { 'HSETNX', key, 'b', '1' },
  { 'HEXISTS', key, 'b' },
  { 'HLEN', key },
  { 'HGETALL', key },
  { 'HINCRBY', key, 'a', 1 },
  { 'HGET', key, 'a' },
  { 'HMGET', key, 'a', 'b' },
  { 'HDEL', key, 'a', 'b' },
  { 'ZADD', key, 1, 'a' },
  { 'ZRANGE', key, 0, 0, 'WITHSCORES' },
  { 'ZRANK', key, 'a' },
  { 'ZCOUNT', key, '-inf', 1 },
  { 'ZRANGEBYSCORE', key, '-inf', 1, 'LIMIT', 0, 1 },
  { 'ZREMRANGEBYRANK', key, 1, 1 },
  { 'ZREM', key, 'a' },
  { 'SADD', key, 'a' },
  { 'SMEMBERS', key },
  { 'SREM', key, 'a' },
  { 'RPUSH', key, 'a' },
  { 'LREM', key, 1, 'b' },
  { 'LRANGE', key, 0, 0 },
  { 'LTRIM', key, 1, 0 },
  { 'UNLINK', key, other },
  { 'PUBLISH', ARGV[1], ARGV[2] },
}
for _, command in ipairs(commands) do
  local answer = redis.pcall(unpack(command))
  local refused = type(answer) == 'table' and answer.err
  if refused then
    redis.pcall('DEL', key, other)
    if string.find(refused, 'OOM', 1, true) then return answer end
    return redis.error_reply('NOPERM ' .. command[1] .. ': ' .. refused)
  end
end
return 'allowed'
