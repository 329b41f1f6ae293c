-- robots: sets the state of a host's robots.txt, for the requests of tasks that obey it.
-- ARGV[1] host; ARGV[2] until when it is known (ms; 0: unknown); ARGV[3] least delay (ms; 0: none)
-- ARGV[4] until when these requests have to wait (ms; 0: they do not)
-- Returns: 1.
local host, delay, wait = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
call('HDEL', HOST(host), 'rd', 'rw')
call('HSET', HOST(host), 'ro', ARGV[2])
if delay > 0 then call('HSET', HOST(host), 'x', 1, 'rd', integer(delay)) end
if wait > 0 then call('HSET', HOST(host), 'x', 1, 'rw', integer(wait)) end
reconsider(host)
return 1
