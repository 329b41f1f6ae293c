-- redirect: held requests continue at another URL, at the head of the lane of its host. Task, rank and tries
-- stay.
-- ARGV[1] generation; ARGV[2] msgpack list of {rid, number of its claim, {host, record}, kind, ms and address of a
--         signal}; the host is of this partition
-- Returns: how many this generation held by these claims. Others are left alone.
local freed, moved, queues = {}, 0, {}
for _, entry in ipairs(cmsgpack.unpack(ARGV[2])) do
  local rid, claim, target, kind, ms, address = unpack(entry)
  local own = call('HGET', OWN, rid)
  if holds(ARGV[1], claim, own) then
    local host, record = unpack(target)
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
