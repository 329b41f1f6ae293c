-- unpark: parked requests of a task go back to their lanes, up to 500 per call.
-- ARGV[1] task
-- Returns: how many were moved; call again until it is 0.
local some = call('HRANDFIELD', PARKED(ARGV[1]), 500)
if #some == 0 then return 0 end
local queues, groups = {}, {}
for i, own in ipairs(call('HMGET', OWN, unpack(some))) do
  append(queues, leave(some[i], own, nil, groups), some[i])
end
call('HDEL', OWN, unpack(some))
call('HDEL', PARKED(ARGV[1]), unpack(some))
leave_groups(groups)
enqueue(queues)
save_tasks()
return #some
