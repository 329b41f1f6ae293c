-- unpark: parked requests of a task go back to their lanes, up to 500 a call.
-- KEYS[1] tag of the partition
-- ARGV[1] task
-- Answer: how many were moved; call again until it is 0.
local some = call('HSCAN', PARKED(ARGV[1]), 0, 'COUNT', 500)[2]
local queues, freed, moved = {}, {}, 0
for i = 1, math.min(#some, 1000), 2 do
  local rid = some[i]
  append(queues, leave(rid, call('HGET', OWN, rid), freed), rid)
  call('HDEL', OWN, rid)
  moved = moved + 1
end
enqueue(queues, 'RPUSH')
save_tasks()
return moved
