-- begin: one look at the shard before a step is decided, and numbers for what it may write.
--
-- Atomic: yes. Writes nothing but the two counters.
-- KEYS  1 meta  2 leases
-- ARGV  1 arrivals wanted  2 ledger numbers wanted
-- Gives { seconds, microseconds, config version, end of the soonest lease or '', last arrival, last ledger number, '' }.
--       The numbers given are the ones up to the last; those that are not used stay gaps. If the last is not '', what
--       submit.lua has left has to be ended first (`close.lua`).
local time = redis.call('TIME')
local meta = redis.call('HMGET', KEYS[1], 'config', 'admitting')
local soonest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or ''
local seq, entry = '0', '0'
if ARGV[1] ~= '0' then seq = redis.call('HINCRBY', KEYS[1], 'seq', ARGV[1]) end
if ARGV[2] ~= '0' then entry = redis.call('HINCRBY', KEYS[1], 'ledger', ARGV[2]) end
return { time[1], time[2], meta[1] or '0', soonest, tostring(seq), tostring(entry), meta[2] or '' }
