-- park: held requests that cannot run now (their spider or callback is missing) are set aside. Those
-- of a task that is being cancelled go back to their lanes instead, to be ended.
-- ARGV[1] generation; ARGV[2] msgpack list of {rid, number of its claim, reason}
-- ARGV[3] mark of the code version that could not run them, 8 hex digits; it is added to the versions they
--         tried; the newest 8 are kept. '' = the code is not to blame: the versions tried
--         before are forgotten, and only unpark brings the requests back.
-- Returns: how many this generation held by these claims. Others are left alone.
local TRIED_LENGTH = 8 * 8 + 7
local mark = ARGV[3]

local function longer(tried)
  if mark == '' or tried == '' then return mark end
  if string.find(tried, mark, 1, true) then return tried end
  return string.sub(tried .. '.' .. mark, -TRIED_LENGTH)
end

local freed, moved, queues, groups = {}, 0, {}, {}
for _, entry in ipairs(cmsgpack.unpack(ARGV[2])) do
  local rid, claim, reason = unpack(entry)
  local own = call('HGET', OWN, rid)
  if holds(ARGV[1], claim, own) then
    local lane = leave(rid, own, freed)
    local id = split_lane(lane)
    local task = id and task_of(id)
    if not task then
      call('HDEL', OWN, rid)  -- damage, which must not stop the others
    elseif task.state == 'cancelling' then
      call('HDEL', OWN, rid)
      append(queues, lane, rid)
    else
      call('HSET', OWN, rid, 'p|' .. lane)
      call('HSET', PARKED(id), rid, reason)
      count(task, 'parked', 1)
      local attempts, deliveries, tried = tries_of(rid)
      tried = longer(tried)
      set_tries(rid, attempts, deliveries, tried)
      if tried ~= '' then append(groups, id .. ':' .. tried, rid) end
    end
    moved = moved + 1
  end
end
for group, rids in pairs(groups) do strand(group, rids) end
enqueue(queues)
free_slots(freed)
save_tasks()
return moved
