-- The answer: the batch of this claim, or the batch before, whose answer was lost.
function answer(wait)
  local states, batch, blamed, refused, homeless, named = {}, {}, {}, {}, {}, {}
  if #rids > 0 then
    local tries = call('HMGET', TRIES, unpack(rids))
    local refusals = call('EXISTS', REFUSALS) == 1 and call('HMGET', REFUSALS, unpack(rids)) or {}
    for i, rid in ipairs(rids) do
      local place = 4 * i
      batch[place - 3], batch[place - 2], batch[place - 1] = rid, lanes[i], found[i]
      batch[place] = tries[i]
      local kills = tries[i] and call('HGET', KILLS, rid)
      if kills then
        blamed[#blamed + 1] = rid
        blamed[#blamed + 1] = kills
      end
      if refusals[i] then
        refused[#refused + 1] = rid
        refused[#refused + 1] = refusals[i]
      end
      local id, _, host = split_lane(lanes[i])
      local task = task_of(id)
      if task.shares and naming.is_host(host) and not address_of(host) then homeless[#homeless + 1] = rid end
      if not named[id] then
        named[id] = true
        states[#states + 1] = id
        states[#states + 1] = task.state
        states[#states + 1] = task.cookies or '0'
        states[#states + 1] = task.pin and 1 or 0
      end
    end
  end
  local free, waits = {}, {}
  for id in pairs(unserved) do free[#free + 1] = id end
  for i = 1, #spaced, 2 do
    waits[i], waits[i + 1] = spaced[i], math.max(0, math.ceil(1000 * (spaced[i + 1] - exact_now())))
  end
  return {wait, states, batch, blamed, refused, homeless, waits, free, routed}
end

local last = call('GET', BATCH(generation))
if last then
  local readable, batch = pcall(cmsgpack.unpack, last)
  local mark, held, late = unpack(readable and type(batch) == 'table' and batch or {})
  if mark == sequence then
    keep_pulse()
    for _, rid in ipairs(held) do
      local own, record = call('HGET', OWN, rid), call('HGET', REQ, rid)
      if own and record then
        local holder, lane, hold = split_own(own)
        if holder == generation then
          local place, proxy = #rids + 1, naming.split_hold(hold)
          rids[place], lanes[place], found[place] = rid, lane, record
          if proxy then routed[#routed + 1], routed[#routed + 2] = rid, proxy end
        end
      end
    end
    spaced = late or spaced
    return answer(0)
  end
end
