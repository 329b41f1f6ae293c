-- unpin: another generation may serve a task that this one serves alone, if it holds nothing of it.
-- KEYS[1] tag of the partition
-- ARGV[1] task; ARGV[2] generation
-- Returns: 1 if it did serve it, else 0.
local task = task_of(ARGV[1])
if not task or task.pin ~= ARGV[2] or task.inprogress > 0 then return 0 end
call('HSET', TASK(ARGV[1]), 'pin', '0')
rejoin(ARGV[2])
return 1
