-- pin: give a task that runs in one worker to a generation, unless a living one serves it, or is leaving it.
-- ARGV[1] task; ARGV[2] generation; ARGV[3] the generation that serves it, as the first partition decided; '' decides
-- Returns: the generation that serves it now; '' when none may, or the task is not known here or runs in all workers.
local task, holder = task_of(ARGV[1]), ARGV[3]
if not task or not task.pin then return '' end
if holder == '' then
  holder = task.pin
  local leaving = string.match(holder, '^-(.*)')
  if holder == '0' or not call('ZSCORE', GENERATIONS, leaving or holder) then
    holder = ARGV[2]
  elseif leaving then
    return ''
  end
end
if holder ~= task.pin then call('HSET', TASK(ARGV[1]), 'pin', holder) end
return holder
