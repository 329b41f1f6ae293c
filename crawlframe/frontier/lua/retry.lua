-- retry: held requests wait for another attempt. Requests of a task that is being cancelled do not wait.
-- ARGV[1] generation; ARGV[2] msgpack list of {rid, number of its claim, delay ms, kind, ms and address of a signal}
-- ARGV[3] attempts to add: 1 the last attempt failed, 0 it was not made
-- Returns: how many this generation held by these claims. Others are left alone.
local freed, moved = {}, 0
for _, entry in ipairs(cmsgpack.unpack(ARGV[2])) do
  local rid, claim, delay, kind, ms, address = unpack(entry)
  local own = call('HGET', OWN, rid)
  if holds(ARGV[1], claim, own) then
    local lane = leave(rid, own, freed, nil, kind, ms, address)
    if lane then
      call('HSET', OWN, rid, 'd|' .. lane)
      local task = task_of((split_lane(lane)))
      if task.state == 'cancelling' then delay = 0 end
      call('ZADD', DELAYED, integer(now_ms() + delay), rid)
      count(task, 'delayed', 1)
      add_tries(rid, tonumber(ARGV[3]), 0)
    end
    moved = moved + 1
  end
end
hear_signals()
free_slots(freed)
save_tasks()
return moved
