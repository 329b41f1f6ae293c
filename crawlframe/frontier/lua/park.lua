-- park: held requests that cannot run now (their spider or callback is missing) step aside. Of a task
-- that is being cancelled they go back to their lanes instead, to be ended.
-- KEYS[1] tag of the partition
-- ARGV[1] generation; ARGV[2] msgpack list of {rid, reason}
-- Answer: how many this generation held. Others are left alone.
local freed, moved, queues = {}, 0, {}
for _, entry in ipairs(cmsgpack.unpack(ARGV[2])) do
  local rid, reason = unpack(entry)
  local own = call('HGET', OWN, rid)
  if own and split_own(own) == ARGV[1] then
    local lane = leave(rid, own, freed)
    local id = split_lane(lane)
    local task = task_of(id)
    if task.state == 'cancelling' then
      call('HDEL', OWN, rid)
      append(queues, lane, rid)
    else
      call('HSET', OWN, rid, 'p|' .. lane)
      call('HSET', PARKED(id), rid, reason)
      count(task, 'parked', 1)
    end
    moved = moved + 1
  end
end
enqueue(queues)
free_slots(freed)
save_tasks()
return moved
