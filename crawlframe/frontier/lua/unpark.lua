-- unpark: parked requests of a task go back to their lanes, up to 500 a call.
-- KEYS[1] tag of the partition
-- ARGV[1] task
-- Answer: how many were moved; call again until it is 0.
local some = call('HRANDFIELD', PARKED(ARGV[1]), 500)
local queues = {}
for _, rid in ipairs(some) do
  append(queues, leave(rid, call('HGET', OWN, rid)), rid)
  call('HDEL', OWN, rid)
end
enqueue(queues)
save_tasks()
return #some
