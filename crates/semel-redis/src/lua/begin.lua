-- begin: one look at the shard before a step is decided, and numbers for what it may write.
--
-- Atomic: yes. Writes nothing but the two counters.
-- KEYS  1 meta  2 leases
-- ARGV  1 arrivals wanted  2 ledger numbers wanted
-- Gives { seconds, microseconds, config version, end of the soonest lease or '', last arrival, last ledger number }.
--       The numbers given are the ones up to the last; those that are not used stay gaps.
local time = redis.call('TIME')
local config = redis.call('HGET', KEYS[1], 'config') or '0'
local soonest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or ''
local seq, entry = '0', '0'
if ARGV[1] ~= '0' then seq = redis.call('HINCRBY', KEYS[1], 'seq', ARGV[1]) end
if ARGV[2] ~= '0' then entry = redis.call('HINCRBY', KEYS[1], 'ledger', ARGV[2]) end
return { time[1], time[2], config, soonest, tostring(seq), tostring(entry) }
