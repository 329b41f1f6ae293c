-- complete: requests whose ledger row is committed leave the frontier, their follow-ups enter it, and
-- the counters move, all at once. Only requests that are still pending count; whichever node holds
-- them, the ledger row says that they are done.
-- ARGV[1] msgpack list of {rid, task, 0 done | 1 error | 2 cancelled | 3 excluded, {dropped duplicates, items, depth
--         if it may be of a later layer}, cursor,
--         groups of follow-ups as admit() reads them, kind, ms and address of a signal}; cursor = how
--         many of this request were pushed before
-- Returns: {{task whose remaining requests reached 0, or 1 that is delayed: perhaps its last, ...},
--         {rid, cursor, ...}}; the second list names requests not completed because the cursor
--         differs: send the rest from there.
local entries = cmsgpack.unpack(ARGV[1])
local freed, groups, behind, touched = {}, {}, {}, {}
local rids = {}
for i, entry in ipairs(entries) do rids[i] = entry[1] end
local records, owners = call('HMGET', REQ, unpack(rids)), call('HMGET', OWN, unpack(rids))
local cursors = call('EXISTS', CURSOR) == 1 and call('HMGET', CURSOR, unpack(rids)) or {}
local gone, done = {}, {}
for i, entry in ipairs(entries) do
  local rid, id, failed, counted, cursor, follow_ups, kind, ms, address = unpack(entry)
  local task = task_of(id)
  if records[i] and not gone[rid] and task then
    local pushed = tonumber(cursors[i] or 0) or 0
    if pushed ~= cursor then
      behind[#behind + 1] = rid
      behind[#behind + 1] = pushed
    else
      gone[rid] = true
      done[#done + 1] = rid
      if owners[i] then leave(rid, owners[i], freed, groups, kind, ms, address) end
      count(task, failed == 0 and 'nf' or 'ne', 1)
      if failed == 2 then count(task, 'cancelled', 1) end
      if failed == 3 then count(task, 'excluded', 1) end
      count(task, 'duplicates', counted[1])
      count(task, 'items', counted[2])
      if counted[3] and layers.is_beyond(task, counted[3]) then layers.count_beyond(task, counted[3], -1) end
      touched[id] = task
      admit(task, follow_ups)
    end
  end
end
enter()
if #done > 0 then
  call('HDEL', REQ, unpack(done))
  call('HDEL', OWN, unpack(done))
  forget_tries(done)
  if cursors[1] ~= nil then call('HDEL', CURSOR, unpack(done)) end
end
leave_groups(groups)
hear_signals()
free_slots(freed)
save_tasks()
local ended = {}
for id, task in pairs(touched) do
  local left = task.na - task.nf - task.ne
  if left == 0 or (left == 1 and task.delayed == 1) then ended[#ended + 1] = id end
end
return {ended, behind}
