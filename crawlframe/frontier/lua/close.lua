-- close: forget a task that has ended: counters and seen fingerprints, 300 buckets per call. Its
-- lanes in LANES are removed by claim; lanes of a paused task or of a later layer are removed here.
-- ARGV[1] task
-- Returns: 1 when all is gone, 0 to be called again, 2 after near_forget has removed its store of texts. A task with pending requests is left alone (1).
local id = ARGV[1]
local task = task_of(id)
if not task then
  call('SREM', TASKS, id)
  return 1
end
if task.na - task.nf - task.ne ~= 0 then return 1 end
if call('EXISTS', NEAR('t' .. id)) == 1 then return 2 end
local hidden = call('SPOP', PAUSED(id), 300)
for _, lane in ipairs(hidden) do call('UNLINK', LANE(lane)) end
if #hidden == 300 then return 0 end
if task.layer then
  local deep = call('ZPOPMIN', DEEP(id), 300)
  for i = 1, #deep, 2 do call('UNLINK', LANE(deep[i])) end
  if #deep == 600 then return 0 end
end
local last = task.size + task.split - 1
local first = math.max(0, last - 299)
local buckets = {}
for bucket = first, last do buckets[#buckets + 1] = task.buckets .. bucket end
call('UNLINK', unpack(buckets))
if first > 0 then
  -- The rest looks like a smaller table; nothing is added to it, as no request of the task is pending.
  local size = first
  task.level = math.floor(math.log(size) / math.log(2))
  task.split = size - 2 ^ task.level
  task.dirty = true
  save_tasks()
  return 0
end
call('UNLINK', TASK(id), HOST_PAGES(id), PARKED(id), PAUSED(id), COOKIES(id))
call('SREM', TASKS, id)
return 1
