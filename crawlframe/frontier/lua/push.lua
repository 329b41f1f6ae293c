-- push: admit a chunk of a long follow-up list before its parent completes, or a part of the
-- requests of `start` while it still runs. The parent has had a result: the deaths it was blamed for are
-- forgotten, unless it is parked by now, as it is listed by the versions that could not run it.
-- ARGV[1] rid of the parent; ARGV[2] task; ARGV[3] position of the chunk in the list
-- ARGV[4] msgpack groups of requests as admit() reads them; ARGV[5] by how much the position grows
-- Returns: the cursor (the position now), or -1 when the parent is no longer pending.
-- Only the chunk at the cursor is admitted; any other call just returns the cursor.
if call('HEXISTS', REQ, ARGV[1]) == 0 then return -1 end
local cursor = tonumber(call('HGET', CURSOR, ARGV[1])) or 0
if cursor ~= tonumber(ARGV[3]) then return cursor end
admit(task_of(ARGV[2]), cmsgpack.unpack(ARGV[4]))
enter()
save_tasks()
cursor = cursor + ARGV[5]
call('HSET', CURSOR, ARGV[1], cursor)
local holder = split_own(call('HGET', OWN, ARGV[1]) or nil)
if holder ~= 'p' then forget_tries({ARGV[1]}) end
return cursor
