-- push: admit a chunk of a long follow-up list before its parent completes.
-- KEYS[1] tag of the partition
-- ARGV[1] rid of the parent; ARGV[2] task; ARGV[3] position of the chunk in the list
-- ARGV[4] msgpack groups of requests as admit() reads them; ARGV[5] how many requests
-- Returns: the cursor (how many are pushed now), or -1 when the parent is no longer pending.
-- Only the chunk at the cursor is admitted; any other call just returns the cursor.
if call('HEXISTS', REQ, ARGV[1]) == 0 then return -1 end
local cursor = tonumber(call('HGET', CURSOR, ARGV[1])) or 0
if cursor ~= tonumber(ARGV[3]) then return cursor end
admit(task_of(ARGV[2]), cmsgpack.unpack(ARGV[4]))
enter()
save_tasks()
cursor = cursor + ARGV[5]
call('HSET', CURSOR, ARGV[1], cursor)
return cursor
