-- state: set a task running, paused or cancelling, and bring back its waiting requests, 500 lanes per call.
-- ARGV[1] task; ARGV[2] state
-- ARGV[3] 'begin', or 'end' when the whole change is done: until then the task hash has `changing`,
--         so that the change is completed if its caller died half way
-- Returns: the lanes still to bring back (call again until it is 0), or -1 when the task is not known.
local id = ARGV[1]
local task = task_of(id)
if not task then return -1 end
if ARGV[3] == 'end' then
  if call('HGET', TASK(id), 'changing') == ARGV[2] then call('HDEL', TASK(id), 'changing') end
  return 0
end
call('HSET', TASK(id), 'state', ARGV[2], 'changing', ARGV[2])
task.state = ARGV[2]  -- for show_lane
if ARGV[2] == 'paused' then return 0 end
local some = call('SPOP', PAUSED(id), 500)
for _, lane in ipairs(some) do
  if call('EXISTS', LANE(lane)) == 1 then show_lane(lane) end
end
return call('SCARD', PAUSED(id))
