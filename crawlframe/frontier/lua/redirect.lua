-- redirect: held requests continue at another URL, at the head of the lane of its host. Task, rank and tries
-- stay.
-- ARGV[1] generation; ARGV[2] msgpack list of {rid, {host, record, bytes of the old record}, kind, ms and address of
--         a signal}; the host is of this partition. The number is 0 for records that can only be longer than the old ones.
-- Returns: how many were moved. Requests that this generation does not hold are left alone, and so are
--         requests whose record is neither the old one nor shorter than the given one: a record grows with each redirect, so
--         they were moved before and claimed again.
local freed, moved, queues = {}, 0, {}
for _, entry in ipairs(cmsgpack.unpack(ARGV[2])) do
  local rid, target, kind, ms, address = unpack(entry)
  local host, record, before = unpack(target)
  local own, length = call('HGET', OWN, rid), call('HSTRLEN', REQ, rid)
  if split_own(own) == ARGV[1] and length > 0 and (length < #record or length == before) then
    local id, rank = split_lane(leave(rid, own, freed, nil, kind, ms, address))
    if id then
      append(queues, id .. ':' .. rank .. ':' .. host, rid)
      call('HSET', REQ, rid, record)
    end
    call('HDEL', OWN, rid)
    moved = moved + 1
  end
end
enqueue(queues, true)
hear_signals()
free_slots(freed)
save_tasks()
return moved
