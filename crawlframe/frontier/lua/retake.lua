-- retake: parked requests that a code version has not tried go back to the head of their lanes. Only
-- requests of running tasks: others un-park all when they are resumed or cancelled.
-- ARGV[1] mark of the version; ARGV[2] limit of requests; ARGV[3] a unique name of this call
-- Returns: how many were moved. Repeated within a minute, it returns the same.
-- Examines up to 500 lists and 500 tasks, chosen at random when there are more: requests that cannot
-- move now never block the others for good.
local mark, most, name = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local before = call('GET', RETAKEN(name))
if before then return tonumber(before) or 0 end

local untried = {}
for _, tried in ipairs(call('SRANDMEMBER', TRIED_VERSIONS, 500)) do
  if not string.find(tried, mark, 1, true) then untried[#untried + 1] = tried end
end

local queues, moved, look = {}, 0, 500
local function take(id, tried)
  look = look - 4  -- it takes five times as long as skipping a task
  local group = id .. ':' .. tried
  local rids = call('SRANDMEMBER', PARKED_BY_TRIED(group), most - moved)
  local parked = {}
  for i, own in ipairs(#rids > 0 and call('HMGET', OWN, unpack(rids)) or {}) do
    local holder, lane = split_own(own or '|')
    if holder == 'p' then
      append(queues, lane, rids[i])
      parked[#parked + 1] = rids[i]
    end
  end
  unstrand(group, rids)
  if #parked == 0 then return end  -- damage, which must not stop the others
  call('HDEL', OWN, unpack(parked))
  call('HDEL', PARKED(id), unpack(parked))
  call('HINCRBY', TASK(id), 'parked', -#parked)
  moved = moved + #parked
end

for i, tried in ipairs(untried) do
  local share = math.ceil(look / (#untried - i + 1))
  for _, id in ipairs(call('SRANDMEMBER', TASKS_BY_TRIED(tried), math.max(0, share))) do
    if moved >= most or look <= 0 then break end
    look = look - 1
    if call('HGET', TASK(id), 'state') == 'running' then take(id, tried) end
  end
end
enqueue(queues, true)
if moved > 0 then call('SET', RETAKEN(name), moved, 'PX', 60000) end
return moved
