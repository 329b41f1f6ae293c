-- quarantine: a row that could not be read is removed, so that it is not read again, and kept for
-- inspection. Rows that requests depend on (counters, owners, records) are rebuilt in a new era.
-- ARGV[1] name of the hash, set or sorted set after the tag; ARGV[2] field or member; ARGV[3] the
--         unreadable value, '' for a set; ARGV[4] 0: it is left in place, and only reported
-- Returns: 1 if it was removed, or is reported for the first time; 0 when it is gone, or another row
--         replaced it.
local MAX_ROWS = 1000  -- rows kept; later ones are dropped
local LONG = 200  -- bytes kept of a field, and of a value
local key, field, value = TAG .. ARGV[1], ARGV[2], ARGV[3]
local kind = call('TYPE', key).ok
local there = kind == 'hash' and call('HGET', key, field) == value
  or kind == 'zset' and call('ZSCORE', key, field) or kind == 'set' and call('SISMEMBER', key, field) == 1
if not there then return 0 end
local row = ARGV[1] .. ' ' .. string.sub(field, 1, LONG)
local told = call('HEXISTS', QUARANTINE, row) == 1
if ARGV[4] == '0' and told then return 0 end
if told or call('HLEN', QUARANTINE) < MAX_ROWS then
  call('HSET', QUARANTINE, row, integer(now_ms()) .. ' ' .. string.sub(value, 1, LONG))
end
if ARGV[4] == '0' then return 1 end
local of_task = string.match(ARGV[1], '^task:')
if of_task then call('UNLINK', key)  -- without one counter the others are meaningless
elseif kind == 'hash' then call('HDEL', key, field)
elseif kind == 'zset' then call('ZREM', key, field)
else call('SREM', key, field) end
if of_task or key == OWN or key == REQ then doubt() end
return 1
