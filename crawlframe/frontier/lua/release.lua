-- release: held requests go back to the head of their lanes.
-- KEYS[1] tag of the partition
-- ARGV[1] generation; ARGV[2] msgpack list of {rid, penalty (0 none; 1 it is blamed for the death of its
--         worker: one more delivery and one more kill)}
-- Returns: how many this generation held. Others are left alone.
local freed, moved, queues = {}, 0, {}
for _, entry in ipairs(cmsgpack.unpack(ARGV[2])) do
  local rid, penalty = unpack(entry)
  local own = call('HGET', OWN, rid)
  if split_own(own) == ARGV[1] then
    append(queues, leave(rid, own, freed), rid)
    call('HDEL', OWN, rid)
    if penalty > 0 then add_kill(rid) end
    moved = moved + 1
  end
end
enqueue(queues, true)
free_slots(freed)
save_tasks()
return moved
