-- park: held requests that cannot run now (their spider or callback is missing) step aside.
-- KEYS[1] tag of the partition
-- ARGV[1] generation; ARGV[2] msgpack list of {rid, reason}
-- Answer: how many this generation held. Others are left alone.
local freed, moved = {}, 0
for _, entry in ipairs(cmsgpack.unpack(ARGV[2])) do
  local rid, reason = unpack(entry)
  local own = call('HGET', OWN, rid)
  if own and split_own(own) == ARGV[1] then
    local lane = leave(rid, own, freed)
    local id = split_lane(lane)
    call('HSET', OWN, rid, 'p|' .. lane)
    call('HSET', PARKED(id), rid, reason)
    count(task_of(id), 'parked', 1)
    moved = moved + 1
  end
end
free_slots(freed, now_ms())
save_tasks()
return moved
