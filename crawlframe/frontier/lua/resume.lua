-- resume: a host's rest ends, and its causes are forgotten. An operator's order stays.
-- ARGV[1] host
-- Returns: 1.
local host = ARGV[1]
call('HDEL', HOST(host), 'r', 'why', 'f', 'u', 'p', 'b', 'rw')
call('SREM', WATCHED, host)
mark_held(host)
reconsider(host)
return 1
