-- unpin: take a task that runs in one worker from the generation that serves it, step by step (Pins.leave).
-- ARGV[1] task; ARGV[2] generation; ARGV[3] the pin that it has; ARGV[4] the new pin: '0' for none,
-- or '-' and the generation, which is leaving, so that neither it nor another is given the task
-- Returns: 1 if it has the new one, -1 if it had another pin, 0 if the generation holds something of it.
local task = task_of(ARGV[1])
if not task or task.pin ~= ARGV[3] then return -1 end
if ARGV[4] ~= ARGV[2] and task.inprogress > 0 then return 0 end
call('HSET', TASK(ARGV[1]), 'pin', ARGV[4])
rejoin(ARGV[2])
return 1
