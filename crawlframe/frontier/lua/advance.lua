-- advance: delayed requests of a task that is being cancelled become due; its last request is left alone.
-- ARGV[1] task; ARGV[2] cursor, 0 first
-- Returns: the next cursor; call again until it is 0.
local scan = call('ZSCAN', DELAYED, ARGV[2], 'COUNT', 300)
local queues, some = {}, {}
for i = 1, #scan[2], 2 do
  local rid = scan[2][i]
  local own = call('HGET', OWN, rid)
  local _, lane = split_own(own)
  if split_lane(lane) == ARGV[1] and not is_last(lane) then
    append(queues, leave(rid, own), rid)
    some[#some + 1] = rid
  end
end
if #some > 0 then
  call('HDEL', OWN, unpack(some))
  enqueue(queues)
  save_tasks()
end
return scan[1]
