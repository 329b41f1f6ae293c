-- layer: a task that is crawled in layers advances to a layer, and the lanes that waited for it are shown, 500 per
-- call. It never goes back.
-- ARGV[1] task; ARGV[2] layer
-- Returns: the lanes still to be shown (call again until it is 0), or -1 when the task is not known here or is not
--         crawled in layers.
local id, layer = ARGV[1], tonumber(ARGV[2])
local task = task_of(id)
if not task or not task.layer then return -1 end
if layer > task.layer then
  for depth = task.layer + 1, layer do
    local n = tonumber(call('HGET', TASK(id), 'w' .. integer(depth))) or 0
    if n ~= 0 then layers.count_beyond(task, depth, -n) end
    call('HDEL', TASK(id), 'w' .. integer(depth))
  end
  call('HSET', TASK(id), 'layer', integer(layer))
  task.layer = layer
end
local reached = integer(task.layer)
local some = call('ZRANGEBYSCORE', DEEP(id), '-inf', reached, 'LIMIT', 0, 500)
if #some > 0 then call('ZREM', DEEP(id), unpack(some)) end
for _, lane in ipairs(some) do
  if call('EXISTS', LANE(lane)) == 1 then show_lane(lane) end
end
return call('ZCOUNT', DEEP(id), '-inf', reached)
