-- order: sets an operator's limits of a host, for the requests of all tasks.
-- ARGV[1] host; ARGV[2] msgpack {field, value, ...} of the host's hash (od delay ms, oc concurrency,
--         op 1 paused, og further rules of the gate, ou until when, ms), which replace an earlier order; {} ends it
-- Returns: 1.
local host, fields = ARGV[1], cmsgpack.unpack(ARGV[2])
local order = {}
for i = 1, #fields, 2 do order[fields[i]] = tonumber(fields[i + 1]) end
call('HDEL', HOST(host), 'od', 'oc', 'op', 'og', 'ou')
if #fields > 0 then call('HSET', HOST(host), 'x', 1, unpack(fields)) end
if order.od then advance_host(host, order.od) end
mark_held(host)
reconsider(host)
return 1
