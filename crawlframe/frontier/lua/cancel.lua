-- cancel: requests of a task that is being cancelled and that wait in these lanes end at once. Their
-- ledger rows are written later, from the database (crawlservice/ledger/cancellation.py).
-- ARGV[1] task; ARGV[2] msgpack list of lanes, at most 500
-- Returns: how many of the lanes, in order, are empty now; call again with the others. At most 500
--         entries are removed per call. The lane of the task's last request is skipped. A task in
--         another state, or not known, is left alone (-1).
local MAX_TAKEN = 500
local id, lanes = ARGV[1], cmsgpack.unpack(ARGV[2])
local task = task_of(id)
if not task or task.state ~= 'cancelling' then return -1 end

-- A request that was completed while it was ready, or has an owner, is a leftover in its lane.
local function drop(rids)
  local owners, dropped = call('HMGET', OWN, unpack(rids)), {}
  for i, rid in ipairs(rids) do
    if not owners[i] and call('HDEL', REQ, rid) == 1 then dropped[#dropped + 1] = rid end
  end
  if #dropped == 0 then return end
  forget_tries(dropped)
  call('HDEL', CURSOR, unpack(dropped))
  count(task, 'ne', #dropped)
  count(task, 'cancelled', #dropped)
end

local function hide_lane(lane)
  local _, rank, host = split_lane(lane)
  call('ZREM', LANES(host), id .. ':' .. rank)
  call('SREM', PAUSED(id), lane)
  if task.layer then call('ZREM', DEEP(id), lane) end
  if call('EXISTS', LANES(host)) == 1 then return end
  call('ZREM', HOSTS, host)
  local address = address_of(host)
  if address then call('ZREM', WAITING(address), host) end
  if (tonumber(call('HGET', HOST(host), 'a')) or 0) <= 0 then rest_host(host) end
end

local taken, emptied = 0, 0
for _, lane in ipairs(lanes) do
  if not is_last(lane) then
    local some = taken < MAX_TAKEN and call('LPOP', LANE(lane), MAX_TAKEN - taken) or {}
    taken = taken + #some
    if #some > 0 then drop(some) end
    if call('EXISTS', LANE(lane)) == 1 then break end
    hide_lane(lane)
  end
  emptied = emptied + 1
end
save_tasks()
return emptied
