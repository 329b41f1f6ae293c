-- cookies: add to the cookies that a task's requests share. A task that is not known is left alone.
-- KEYS[1] tag of the partition
-- ARGV[1] task; ARGV[2] msgpack {key, cookie, ...}
-- Answer: 1 when something changed (and the cookie version grew), else 0.
local id, given = ARGV[1], cmsgpack.unpack(ARGV[2])
if not task_of(id) then return 0 end
local changed = false
for i = 1, #given, 2 do
  if call('HGET', COOKIES(id), given[i]) ~= given[i + 1] then
    call('HSET', COOKIES(id), given[i], given[i + 1])
    changed = true
  end
end
if changed then call('HINCRBY', TASK(id), 'cookies', 1) end
return changed and 1 or 0
