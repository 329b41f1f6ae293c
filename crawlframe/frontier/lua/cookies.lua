-- cookies: add to the cookies that a task's requests share. A task that is not known is left alone.
-- ARGV[1] task; ARGV[2] msgpack {key, cookie, ...}
-- Returns: 1 when something changed (and the cookie version grew), else 0.
-- An empty cookie means that it was deleted. Such entries are dropped with every 256th version. A
-- reader that has not seen the deletion by then finds another `swept`, and the cookie missing.
local id, given = ARGV[1], cmsgpack.unpack(ARGV[2])
if not task_of(id) then return 0 end
local changed = false
for i = 1, #given, 2 do
  changed = changed or call('HGET', COOKIES(id), given[i]) ~= given[i + 1]
end
if not changed then return 0 end
local version = call('HINCRBY', TASK(id), 'cookies', 1)
if version % 256 == 0 then
  local all = call('HGETALL', COOKIES(id))
  for i = 1, #all, 2 do
    if all[i + 1] == '' then call('HDEL', COOKIES(id), all[i]) end
  end
  call('HSET', TASK(id), 'swept', integer(version))
end
-- After the sweep, so that a repeated call changes nothing.
call('HSET', COOKIES(id), unpack(given))
return 1
