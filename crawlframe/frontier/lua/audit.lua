-- audit: compare every counter with the queues, in one instant (read only; walks everything, so it
-- stops Redis for about 5 microseconds per pending request).
-- ARGV[1] limit of pending requests to walk; above it, only the counters are compared. The same limit
--         holds for buckets of seen fingerprints.
-- Returns: {1 if everything was walked, else 0; a message for each problem, ...}
local MAX_PROBLEMS = 1000  -- limit of problems reported
local problems, per_task, active, held, ready, parked_by_tried = {1}, {}, {}, {}, {}, {}
local uses = {}  -- proxy -> requests in flight that it does not count
local at = {}  -- address -> slots of its hosts that it does not count
local function problem(...)
  if #problems <= MAX_PROBLEMS then problems[#problems + 1] = string.format(...) end
end
local function hex(rid) return (string.gsub(rid, '.', function(c) return string.format('%02x', string.byte(c)) end)) end
local function add(counters, key, n) counters[key] = (counters[key] or 0) + n end

local pending, owned = call('HLEN', REQ), call('HLEN', OWN)
local sum, waiting, delayed, buckets = 0, 0, 0, 0
for _, id in ipairs(call('SMEMBERS', TASKS)) do
  local task = task_of(id)
  if not task then problem('task %s is listed but has no counters', id) else
    local left = task.na - task.nf - task.ne
    local away = task.inprogress + task.delayed + task.parked
    sum, waiting, delayed = sum + left, waiting + away, delayed + task.delayed
    if task.cancelled < 0 or task.excluded < 0 or task.cancelled + task.excluded > task.ne then
      problem('task %s: %d of %d errors are counted as cancelled, %d as excluded', id, task.cancelled, task.ne,
        task.excluded)
    end
    if left < away then
      problem('task %s: %d remain but %d are in progress, delayed or parked', id, left, away)
    end
    -- A fingerprint without a request would keep that request out for ever. (A task that is being
    -- closed has already lost buckets.)
    buckets = buckets + task.size + task.split
    if left > 0 and buckets <= tonumber(ARGV[1]) then
      local seen = 0
      for bucket = 0, task.size + task.split - 1 do
        seen = seen + call('SCARD', task.buckets .. string.format('%d', bucket))
      end
      if seen ~= task.seen then
        problem('task %s: %d fingerprints are kept, %d were counted', id, seen, task.seen)
      end
    end
    per_task[id] = {ready = 0, inprogress = 0, delayed = 0, parked = 0, beyond = 0}
  end
end
if sum ~= pending then problem('counters say %d requests remain, %d are kept', sum, pending) end
if waiting ~= owned then problem('counters say %d requests are out of their lanes, %d are', waiting, owned) end
if call('ZCARD', DELAYED) ~= delayed then
  problem('counters say %d requests are delayed, %d have a due time', delayed, call('ZCARD', DELAYED))
end
if pending > tonumber(ARGV[1]) then
  problems[1] = 0
  return problems
end

-- A scan may return an entry twice.
local function walk(key, visit)
  local cursor, been = '0', {}
  repeat
    local scan
    if key then scan = call('HSCAN', key, cursor, 'COUNT', 1000)
    else
      local tag = string.gsub(TAG, '[%[%]*?\\]', '\\%0')
      scan = call('SCAN', cursor, 'MATCH', tag .. '[qhip]*:*', 'COUNT', 1000)
    end
    cursor = scan[1]
    for i = 1, #scan[2], key and 2 or 1 do
      local entry = scan[2][i]
      if not been[entry] then
        been[entry] = true
        visit(entry, scan[2][i + 1])
      end
    end
  until cursor == '0'
end

walk(OWN, function(rid, own)
  local holder, lane, hold = split_own(own)
  local id, rank, host = split_lane(lane)
  local mine = per_task[id]
  local early = mine and layers.is_beyond(task_of(id), rank % layers.DEPTHS)
  if call('HEXISTS', REQ, rid) == 0 then problem('%s has an owner but is not pending', hex(rid)) end
  if not host then problem('%s has an owner that cannot be read', hex(rid)) return end
  if not mine then problem('%s belongs to task %s, which is not listed', hex(rid), id)
  elseif holder == 'd' then
    mine.delayed = mine.delayed + 1
    if early then mine.beyond = mine.beyond + 1 end
    if not call('ZSCORE', DELAYED, rid) then problem('%s is delayed but has no due time', hex(rid)) end
  elseif holder == 'p' then
    mine.parked = mine.parked + 1
    if call('HEXISTS', PARKED(id), rid) == 0 then problem('%s is parked without a reason', hex(rid)) end
    local _, _, tried = tries_of(rid)
    if tried ~= '' then
      add(parked_by_tried, id .. ':' .. tried, 1)
      if call('SISMEMBER', PARKED_BY_TRIED(id .. ':' .. tried), rid) == 0 then
        problem('%s is parked but no newer code can find it', hex(rid))
      end
    end
  else
    mine.inprogress = mine.inprogress + 1
    if naming.has_slot(hold) then
      local proxy = naming.split_hold(hold)
      add(active, host, 1)
      if proxy then
        add(active, naming.pair(host, proxy), 1)
        add(uses, proxy, 1)
      end
    end
    add(held, holder, 1)
    if call('SISMEMBER', INPROGRESS(holder), rid) == 0 then
      problem('%s is held by generation %s but not on its list', hex(rid), holder)
    end
  end
  if early and holder ~= 'd' then problem('%s was handed out before its layer began', hex(rid)) end
end)
for _, key in ipairs({TRIES, KILLS, REFUSALS, CURSOR}) do
  walk(key, function(rid)
    if call('HEXISTS', REQ, rid) == 0 then
      problem('%s has an entry in %s but is not pending', hex(rid), key)
    end
  end)
end

local function audit_lane(name)
  local id, rank, host = split_lane(name)
  local found = 0
  for _, rid in ipairs(call('LRANGE', LANE(name), 0, -1)) do
    -- Leftovers of requests that were completed while they were ready do not count.
    if not ready[rid] and call('HEXISTS', REQ, rid) == 1 and call('HEXISTS', OWN, rid) == 0 then
      ready[rid] = true
      found = found + 1
    end
  end
  if found == 0 then return end
  if not per_task[id] then problem('lane %s has %d requests of a task that is not listed', name, found)
    return
  end
  per_task[id].ready = per_task[id].ready + found
  local early = layers.is_beyond(task_of(id), rank % layers.DEPTHS)
  if early then per_task[id].beyond = per_task[id].beyond + found end
  if task_of(id).layer and call('ZSCORE', DEEP(id), name) then  -- the steward shows it when its layer has begun
    if task_of(id).state == 'cancelling' and call('HEXISTS', TASK(id), 'changing') == 0 then
      problem('lane %s has %d requests and waits for its layer, but its task is cancelled', name, found)
    end
    return
  end
  if early then problem('lane %s has %d requests and is shown before its layer begins', name, found) end
  if call('ZSCORE', LANES(host), id .. ':' .. rank) then
    local address = address_of(host)
    local pin = task_of(id).pin
    if not call('ZSCORE', HOSTS, host) and not (address and call('ZSCORE', WAITING(address), host))
      and not (pin and call('ZSCORE', APART(pin), host))
      and (tonumber(call('HGET', HOST(host), 'a')) or 0) < 1 then
      problem('host %s has requests and free slots but no claim can see it', host)
    end
  elseif call('SISMEMBER', PAUSED(id), name) == 0 then
    problem('lane %s has %d requests but no claim can see it', name, found)
  elseif task_of(id).state ~= 'paused' and call('HEXISTS', TASK(id), 'changing') == 0 then
    problem('lane %s has %d requests and is paused, but its task is not', name, found)
  end
end

local BINDING = {'r', 'p', 'rd', 'rw', 'od', 'oc', 'op', 'og'}  -- fields that claim reads only where x is set

local function audit_host(key, name)
  local state = call('HGETALL', key)
  local fields = {}
  for i = 1, #state, 2 do fields[state[i]] = state[i + 1] end
  local slots = tonumber(fields.a) or 0
  add(active, name, -slots)
  if fields.ip and address_of(name) then add(at, fields.ip, slots) end
  for _, field in ipairs(BINDING) do
    if fields[field] and not fields.x then
      problem('host %s has %s, which no claim sees', name, field)
    end
  end
  if (fields.p or fields.b or tonumber(fields.f) or tonumber(fields.u))
    and call('SISMEMBER', WATCHED, name) == 0 then
    problem('host %s has failed, and no answer will change that', name)
  end
  if fields.op and not call('ZSCORE', HELD_HOSTS, name) then
    problem('host %s is paused, and nobody is told', name)
  end
end

local function audit_address(name)
  if call('ZSCORE', HOSTS, naming.entry_of(name)) or (tonumber(call('HGET', ADDRESS(name), 'a')) or 0) > 0 then return end
  problem('address %s has hosts that wait and free slots but no claim can see it', name)
end

walk(nil, function(key)
  local kind, name = string.match(string.sub(key, #TAG + 1), '^(%a+):(.*)$')
  if kind == 'h' then audit_host(key, name)
  elseif kind == 'ip' then add(at, name, -(tonumber(call('HGET', key, 'a')) or 0))
  elseif kind == 'iw' then audit_address(name)
  elseif kind == 'proxy' then add(uses, name, -(tonumber(call('HGET', key, 'a')) or 0))
  elseif kind == 'q' then audit_lane(name)
  elseif kind == 'inprogress' then add(held, name, -call('SCARD', key)) end
end)

for host, difference in pairs(active) do
  if difference ~= 0 then problem('host %s: %d requests in flight are not counted', host, difference) end
end
for address, difference in pairs(at) do
  if difference ~= 0 then problem('address %s: %d requests in flight are not counted', address, difference) end
end
for proxy, difference in pairs(uses) do
  if difference ~= 0 then problem('proxy %s: %d requests in flight are not counted', proxy, difference) end
end
for generation, difference in pairs(held) do
  if call('SISMEMBER', FENCED, generation) == 1 and not call('ZSCORE', GENERATIONS, generation)
    and call('EXISTS', INPROGRESS(generation)) == 1 then
    problem('generation %s was declared dead and holds requests that nobody gives back', generation)
  end
  if difference < 0 then problem('generation %s lists %d requests it does not hold', generation, -difference) end
end
for _, tried in ipairs(call('SMEMBERS', TRIED_VERSIONS)) do
  if call('EXISTS', TASKS_BY_TRIED(tried)) == 0 then problem('no task has tried %s', tried) end
  for _, id in ipairs(call('SMEMBERS', TASKS_BY_TRIED(tried))) do
    local group = id .. ':' .. tried
    local listed = call('SCARD', PARKED_BY_TRIED(group))
    if listed ~= parked_by_tried[group] then
      problem('task %s lists %d requests for code other than %s, %d are parked', id, listed, tried,
        parked_by_tried[group] or 0)
    end
    parked_by_tried[group] = nil
  end
end
for group, parked in pairs(parked_by_tried) do
  problem('%d requests are parked as %s, which newer code cannot find', parked, group)
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
  local beyond = task.layer and task.state ~= 'cancelling' and tonumber(call('HGET', TASK(id), 'beyond')) or 0
  if task.layer and task.state ~= 'cancelling' and beyond ~= mine.beyond then
    problem('task %s: %d requests of later layers are counted, found %d', id, beyond, mine.beyond)
  end
  if call('HLEN', PARKED(id)) ~= mine.parked then
    problem('task %s: %d reasons for %d parked requests', id, call('HLEN', PARKED(id)), mine.parked)
  end
end
return problems
