-- audit: compare every counter with the queues, in one instant (read only; walks everything, so it
-- stops Redis for about 5 microseconds per pending request).
-- KEYS[1] tag of the partition
-- ARGV[1] most pending requests to walk; beyond, only the counters are compared
-- Answer: {1 if everything was walked else 0, problem in plain words, ...}
local problems, per_task, active, ready_seen = {}, {}, {}, {}
local function problem(...) problems[#problems + 1] = string.format(...) end
local function hex(rid) return (string.gsub(rid, '.', function(c) return string.format('%02x', string.byte(c)) end)) end

local pending, owned = call('HLEN', REQ), call('HLEN', OWN)
local sum, waiting = 0, 0
for _, id in ipairs(call('SMEMBERS', TASKS)) do
  local task = task_of(id)
  if not task then problem('task %s is listed but has no counters', id) else
    local left = task.na - task.nf - task.ne
    sum = sum + left
    waiting = waiting + task.inprogress + task.delayed + task.parked
    if left < task.inprogress + task.delayed + task.parked then
      problem('task %s: %d remain but %d are in progress, delayed or parked', id, left,
        task.inprogress + task.delayed + task.parked)
    end
    per_task[id] = {ready = 0, inprogress = 0, delayed = 0, parked = 0}
  end
end
if sum ~= pending then problem('counters say %d requests remain, %d are kept', sum, pending) end
if waiting ~= owned then problem('counters say %d requests are out of their lanes, %d are', waiting, owned) end
if call('ZCARD', DELAYED) > owned then problem('more delayed entries than requests out of lanes') end
if pending > tonumber(ARGV[1]) then return {0, unpack(problems)} end

local function walk(command, key, visit)
  local cursor = '0'
  repeat
    local scan = call(command, key, cursor, 'COUNT', 1000)
    cursor = scan[1]
    visit(scan[2])
  until cursor == '0'
end

walk('HSCAN', OWN, function(some)
  for i = 1, #some, 2 do
    local rid, holder, lane = some[i], split_own(some[i + 1])
    local id, _, host = split_lane(lane)
    local mine = per_task[id]
    if call('HEXISTS', REQ, rid) == 0 then problem('%s has an owner but is not pending', hex(rid)) end
    if not mine then problem('%s belongs to task %s, which is not listed', hex(rid), id)
    elseif holder == 'd' then
      mine.delayed = mine.delayed + 1
      if not call('ZSCORE', DELAYED, rid) then problem('%s is delayed but has no due time', hex(rid)) end
    elseif holder == 'p' then
      mine.parked = mine.parked + 1
      if call('HEXISTS', PARKED(id), rid) == 0 then problem('%s is parked without a reason', hex(rid)) end
    else
      mine.inprogress = mine.inprogress + 1
      active[host] = (active[host] or 0) + 1
      if call('SISMEMBER', INPROGRESS(holder), rid) == 0 then
        problem('%s is held by generation %s but not on its list', hex(rid), holder)
      end
    end
  end
end)

local cursor = '0'
repeat
  local scan = call('SCAN', cursor, 'MATCH', string.gsub(TAG, '[%[%]*?\\]', '\\%0') .. '[qh]:*', 'COUNT', 1000)
  cursor = scan[1]
  for _, key in ipairs(scan[2]) do
    local kind, name = string.sub(key, #TAG + 1, #TAG + 1), string.sub(key, #TAG + 3)
    if kind == 'h' then
      local count_ = tonumber(call('HGET', key, 'a')) or 0
      active[name] = (active[name] or 0) - count_
    else
      local id, rank, host = split_lane(name)
      local found = 0
      for _, rid in ipairs(call('LRANGE', key, 0, -1)) do
        if not ready_seen[rid] and call('HEXISTS', REQ, rid) == 1 and call('HEXISTS', OWN, rid) == 0 then
          ready_seen[rid] = true
          found = found + 1
          if per_task[id] then per_task[id].ready = per_task[id].ready + 1 end
        end
      end
      if found > 0 then
        local shown = call('ZSCORE', LANES(host), id .. ':' .. rank)
        if not shown and call('SISMEMBER', PAUSED(id), name) == 0 then
          problem('lane %s has %d requests but no claim can see it', name, found)
        end
        if shown and not call('ZSCORE', HOSTS, host) and (tonumber(call('HGET', HOST(host), 'a')) or 0) < 1 then
          problem('host %s has requests and free slots but no claim can see it', host)
        end
      end
    end
  end
until cursor == '0'

for host, difference in pairs(active) do
  if difference ~= 0 then problem('host %s: %d requests in flight are not counted', host, difference) end
end
for id, mine in pairs(per_task) do
  local task = task_of(id)
  for _, field in ipairs({'inprogress', 'delayed', 'parked'}) do
    if task[field] ~= mine[field] then
      problem('task %s: counter %s is %d, found %d', id, field, task[field], mine[field])
    end
  end
  local left = task.na - task.nf - task.ne
  local found = mine.ready + mine.inprogress + mine.delayed + mine.parked
  if left ~= found then
    problem('task %s: NA %d - NF %d - NE %d = %d, but ready %d + delayed %d + in progress %d + parked %d = %d',
      id, task.na, task.nf, task.ne, left, mine.ready, mine.delayed, mine.inprogress, mine.parked, found)
  end
end
return {1, unpack(problems)}
