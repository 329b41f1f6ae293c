-- Lanes of a host: their requests, the generations that may have them, and their turns.

-- Takes up to n rids of a lane that are really ready; an entry whose request is gone or already has
-- an owner is a leftover and is dropped. Returns how many, and whether the lane is empty now.
function take_lane(lane, n)
  local got, popped = 0, 0
  while got < n and popped < 500 do
    local asked = n - got
    local some = call('LPOP', LANE(lane), asked)
    if not some or #some == 0 then return got, true end
    local kept, held = call('HMGET', REQ, unpack(some)), call('HMGET', OWN, unpack(some))
    for i, rid in ipairs(some) do
      if kept[i] and not held[i] and not taken[rid] then
        taken[rid] = true
        got = got + 1
        local place = #rids + 1
        rids[place], lanes[place], found[place] = rid, lane, kept[i]
        owners[2 * place - 1], owners[2 * place] = rid, hold .. lane
      end
    end
    popped = popped + #some
    if #some < asked then return got, true end
  end
  return got, call('EXISTS', LANE(lane)) == 0
end

-- Whether this generation may have requests of a task that runs in one worker now, and if not, which generation
-- may; nil: any that asks for the task.
function serves(task)
  local room = rooms[task.id]
  if task.pin == generation then
    if room then return room > 0, generation end
  elseif task.pin ~= '0' and call('ZSCORE', GENERATIONS, task.pin) then
    return false, task.pin
  end
  unserved[task.id] = true
  return false
end

-- The first lanes of a host in the order of service. Tasks of equal priority take turns, whatever the depth of their
-- requests: first comes the task whose last turn is longest ago, and its lane of the least depth. Also returns
-- lane -> another lane of the same task and priority, if tasks take turns.
function in_turn(listed, turn)
  local members, places = {}, {}
  for i = 1, #listed, 2 do members[#members + 1] = listed[i] end
  if #members < 2 then return members end
  local owner, several = {}, false  -- of each priority: the first task that is met
  for i, member in ipairs(members) do
    local id, rank = string.match(member, '^(%d+):(%d+)$')
    local priority = math.floor((tonumber(rank) or 0) / layers.DEPTHS)
    places[member] = {at = i, priority = priority, of = (id or member) .. ':' .. integer(priority)}
    owner[priority] = owner[priority] or id
    several = several or owner[priority] ~= id
  end
  if not several then return members end
  local tasks_of, others = {}, {}
  for i, member in ipairs(members) do
    local place = places[member]
    local age = (turn - tonumber(listed[2 * i])) % TURNS
    local task = tasks_of[place.of]
    if task then
      task.age = math.min(task.age, age)
      others[task.last], task.last = member, member
    else tasks_of[place.of] = {age = age, at = i, last = member} end
  end
  table.sort(members, function(a, b)
    local one, other = places[a], places[b]
    if one.priority ~= other.priority then return one.priority < other.priority end
    local mine, theirs = tasks_of[one.of], tasks_of[other.of]
    if mine ~= theirs then
      if mine.age ~= theirs.age then return mine.age > theirs.age end
      return mine.at < theirs.at
    end
    return one.at < other.at
  end)
  return members, others
end
