-- replay: declare a generation dead and give its requests back, up to 500 per call. Any node may do it.
-- ARGV[1] generation
-- Returns: {how many were moved, how many are left}; call again until none is left.
local generation = ARGV[1]
call('SADD', FENCED, generation)
local some = call('SRANDMEMBER', INPROGRESS(generation), 500)
local freed, queues, moved = {}, {}, 0
for _, rid in ipairs(some) do
  local own = call('HGET', OWN, rid)
  if own and split_own(own) == generation then
    append(queues, leave(rid, own, freed), rid)
    call('HDEL', OWN, rid)
    add_tries(rid, 0, 1)
    moved = moved + 1
  else
    call('SREM', INPROGRESS(generation), rid)
    if own and not split_own(own) then doubt() end
  end
end
enqueue(queues, true)
free_slots(freed)
save_tasks()
local left = call('SCARD', INPROGRESS(generation))
if left == 0 then
  rejoin(generation)
  call('DEL', BATCH(generation))
  call('ZREM', GENERATIONS, generation)
  call('ZREM', STARVED, generation)
end
return {moved, left}
