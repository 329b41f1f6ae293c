-- open: make a task known and admit its seeds. Repeating it changes nothing.
-- ARGV[1] task; ARGV[2] msgpack {field, value, ...} of the task hash (state, delay ms, concurrency,
--         limit, host_limit); ARGV[3] msgpack groups of requests as admit() reads them
-- Returns: 1 if the task was new, else 0.
local fields, seeds = cmsgpack.unpack(ARGV[2]), cmsgpack.unpack(ARGV[3])
local id = ARGV[1]
local new = not task_of(id)
if new then
  call('HSET', TASK(id), 'na', 0, unpack(fields))
  call('SADD', TASKS, id)
  admit(task_of(id), seeds)
  enter()
  save_tasks()
end
return new and 1 or 0
