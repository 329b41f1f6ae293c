-- release: held requests go back to the head of their lanes.
-- ARGV[1] generation; ARGV[2] msgpack list of {rid, number of its claim, penalty (0 none; 1 it is blamed for the
--         death of its worker: one more delivery and one more kill; 2 its host refused it), kind, ms and address of a signal}
-- Returns: how many this generation held by these claims. Others are left alone.
local PATIENCE = 3  -- refusals after which a request no longer keeps its place: others may be answered
local freed, moved, queues, later = {}, 0, {}, {}
for _, entry in ipairs(cmsgpack.unpack(ARGV[2])) do
  local rid, claim, penalty, kind, ms, address = unpack(entry)
  local own = call('HGET', OWN, rid)
  if holds(ARGV[1], claim, own) then
    local refusals = 0
    if penalty == 1 then add_kill(rid) end
    if penalty == 2 then refusals = call('HINCRBY', REFUSALS, rid, 1) end
    append(refusals > PATIENCE and later or queues, leave(rid, own, freed, nil, kind, ms, address), rid)
    call('HDEL', OWN, rid)
    moved = moved + 1
  end
end
enqueue(queues, true)
enqueue(later)
hear_signals()
free_slots(freed)
save_tasks()
return moved
