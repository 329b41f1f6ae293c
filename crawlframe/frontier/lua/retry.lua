-- retry: held requests wait for another try; attempts + 1.
-- KEYS[1] tag of the partition
-- ARGV[1] generation; ARGV[2] msgpack list of {rid, delay ms}
-- Answer: how many this generation held. Others are left alone.
local now, freed, moved = now_ms(), {}, 0
for _, entry in ipairs(cmsgpack.unpack(ARGV[2])) do
  local rid, delay = unpack(entry)
  local own = call('HGET', OWN, rid)
  if own and split_own(own) == ARGV[1] then
    local lane = leave(rid, own, freed)
    call('HSET', OWN, rid, 'd|' .. lane)
    call('ZADD', DELAYED, string.format('%.0f', now + delay), rid)
    count(task_of((split_lane(lane))), 'delayed', 1)
    local attempts, deliveries = tries_of(rid)
    set_tries(rid, attempts + 1, deliveries)
    moved = moved + 1
  end
end
free_slots(freed, now)
save_tasks()
return moved
