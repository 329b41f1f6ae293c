-- last: the last request of a task, which runs its spider's `closed`, is held back until nothing else
-- of the task remains in this partition; then it goes to its lane.
-- ARGV[1] task; ARGV[2] rid of its last request
-- Returns: 1 when it went, else 0: something else remains, it went before, or the task has none.
local task, rid = task_of(ARGV[1]), ARGV[2]
local own = call('HGET', OWN, rid)
if split_own(own) ~= 'd' or task.na - task.nf - task.ne ~= 1 then return 0 end
local queues = {}
append(queues, leave(rid, own), rid)
call('HDEL', OWN, rid)
enqueue(queues)
save_tasks()
return 1
