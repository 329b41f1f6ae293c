-- admit: add requests that the task has not seen. Used for follow-ups that belong to another
-- partition than their parent, and to restore the ledger's records.
-- ARGV[1] task; ARGV[2] msgpack groups of requests as admit() reads them
-- Returns: how many were new. Error NOTASK when the task is not known here.
local task = task_of(ARGV[1])
if not task then return redis.error_reply('NOTASK task ' .. ARGV[1] .. ' is not known') end
local before, duplicates, limited = task.na, task.duplicates, task.limited
admit(task, cmsgpack.unpack(ARGV[2]))
enter()
-- On a repeated call everything would be a duplicate: only verbs that detect repetition count these.
task.duplicates, task.limited, task.host_limited = duplicates, limited, 0
save_tasks()
return task.na - before
