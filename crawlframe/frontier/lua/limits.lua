-- limits: change the limits of a task, and look again at hosts that wait because of the old ones.
-- ARGV[1] task; ARGV[2] msgpack {field, value, ...} of the task hash; ARGV[3] msgpack list of the
--         task's lanes, at most 500
-- Returns: 1. Error NOTASK when the task is not known here.
local id = ARGV[1]
local task = task_of(id)
if not task then return redis.error_reply('NOTASK task ' .. id .. ' is not known') end
call('HSET', TASK(id), unpack(cmsgpack.unpack(ARGV[2])))
tasks[id] = nil
task = task_of(id)
local looked = {}
for _, lane in ipairs(cmsgpack.unpack(ARGV[3])) do
  local _, _, host = split_lane(lane)
  if host and not looked[host] then
    looked[host] = true
    local members, alone = call('ZRANGE', LANES(host), 0, -1), true
    for _, member in ipairs(members) do alone = alone and string.match(member, '^%d+') == id end
    if #members > 0 then
      -- With other tasks, the next time may follow from their delay.
      local gap = task.auto and tonumber(call('HGET', HOST(host), 'g')) or 0
      if alone then
        advance_host(host, math.max(task.delay, gap))
        if naming.pool_route(host) then via.advance_pairs(host, task.delay) end
      end
      bring_back(host)
    end
  end
end
return 1
