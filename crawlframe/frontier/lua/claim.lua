-- claim: free the slots of hosts whose fetches are over, and give a generation up to n requests of
-- due hosts that have free slots.
-- KEYS[1] tag of the partition; host, lane and task keys are reached through HOSTS
-- ARGV[1] generation; ARGV[2] sequence number of this claim; ARGV[3] n
-- ARGV[4] msgpack {rid, sequence number of the claim that returned it, kind, ms and address of the signal, ...}:
--         requests whose fetch is over, or, of the kind SENT, has begun so many ms ago; at most 500. They stay with the generation
--         until they are settled. Those it does not hold by that claim, or has reported before, are left alone.
-- ARGV[5] msgpack {task, free slots of its worker, ...}: tasks that run in one worker, which this generation serves
-- ARGV[6] 1 when this generation takes part in affinity, else 0
-- Returns: {wait ms until something more is due (0: at once, -1: nothing is waiting for a time),
--          {task, state, cookie version, ...}, {rid, lane, record, tries or nil, ...}, {rid, kills, ...}, {rid, refusals, ...},
--          {rid whose host has no address yet, although its task limits what goes to one, ...},
--          {rid, microseconds until it may be sent, ...}: those that are to be reported when they have been sent,
--          {task that runs in one worker and is due, but is not in ARGV[5], and that no other generation serves, ...},
--          {rid, id of the proxy of the pool that it goes through, ...}}
-- Repeated with the same sequence number, it returns the same batch. It counts as a change in the
-- call log when it reports fetches or returns requests. Errors FENCED, ERA when the era is not open.
local refusal = closed()
if refusal then return refusal end
local generation, sequence, want = ARGV[1], ARGV[2], tonumber(ARGV[3])
if call('SISMEMBER', FENCED, generation) == 1 then
  return redis.error_reply('FENCED generation ' .. generation .. ' was declared dead')
end
local now = now_ms()

do  -- a script may have 200 locals at a time
local function end_fetches(over)
  if #over == 0 then return end
  keep_pulse()
  local rids, told, freed, marked = {}, {}, {}, {}
  for i = 1, #over, 5 do rids[#rids + 1] = over[i] end
  for i, own in ipairs(call('HMGET', OWN, unpack(rids))) do
    local holder, lane, hold = split_own(own or '|')
    local place = 5 * i
    local proxy = hold and via.proxy_in(hold)
    if proxy then hold = string.match(hold, '^[^~]*') end
    if holder == generation and hold == '.' .. over[place - 3] and not told[rids[i]] then
      local id, _, host = split_lane(lane)
      if over[place - 2] == SENT then
        note_sent(host, over[place - 1], rids[i], proxy)
      else
        told[rids[i]] = true
        freed[host] = (freed[host] or 0) + 1
        if proxy then left_pairs[#left_pairs + 1] = {host, proxy} end
        note_signal(id, host, over[place - 2], over[place - 1], over[place], proxy)
        marked[#marked + 1] = rids[i]
        marked[#marked + 1] = generation .. OVER .. '|' .. lane
      end
    end
  end
  if #marked > 0 then call('HSET', OWN, unpack(marked)) end
  hear_signals()
  free_slots(freed)
end

end_fetches(cmsgpack.unpack(ARGV[4]))
end

-- A node that has just freed a slot, or pushed follow-ups, claims before the others, which would get
-- nothing for as long as little is due at a time. So it leaves one request to each generation that
-- got less than it asked for and holds less than half as much.
local STARVED_FOR = 250  -- ms for which a request may be left to such a generation; a node asks every 100 ms
local LEFT = 20  -- ms after which a claim that left some comes back for them

local poorer, left = 0, 0  -- number of such generations, and of requests left to them

-- Tasks that run in one worker: the free slots of those that this generation serves, and those that it may serve.
local rooms, unserved = {}, {}
if #ARGV[5] > 1 then
  local listed = cmsgpack.unpack(ARGV[5])
  for i = 1, #listed, 2 do rooms[listed[i]] = listed[i + 1] end
end

local rids, lanes, found = {}, {}, {}  -- the claimed requests, with their lanes and records
local spaced = {}  -- rid, when it may be sent, ...: those of hosts or addresses with a delay
local routed = {}  -- rid, id of its proxy, ...: those that go through the pool

local function answer(wait)
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
      if task.shares and not string.find(host, '|', 1, true) and not address_of(host) then homeless[#homeless + 1] = rid end
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

do
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
          local place, proxy = #rids + 1, via.proxy_in(hold)
          rids[place], lanes[place], found[place] = rid, lane, record
          if proxy then routed[#routed + 1], routed[#routed + 2] = rid, proxy end
        end
      end
    end
    spaced = late or spaced
    return answer(0)
  end
end
end

-- Takes up to n rids of a lane that are really ready; an entry whose request is gone or already has
-- an owner is a leftover and is dropped. Returns how many, and whether the lane is empty now.
local owners, hold = {}, generation .. '.' .. sequence .. '|'

local function take_lane(lane, n)
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

-- Who may have requests of a task that runs in one worker: returns whether this generation may now, and if not,
-- which one may; nil: any that asks for the task.
local function serves(task)
  local room = rooms[task.id]
  if task.pin == generation then
    if room then return room > 0, generation end
  elseif task.pin ~= '0' and call('ZSCORE', GENERATIONS, task.pin) then
    return false, task.pin
  end
  unserved[task.id] = true
  return false
end

-- Lanes of a host that one claim examines; with more of them, those of one task must not hide another, and
-- where only some may go, not those either.
local MAX_LANES = {few = 16, more = 100, chosen = 500}

-- What holds a host beyond the limits of its tasks.
local FREE = {till = 0, robots_delay = 0, robots_wait = 0}

local function rules_of(host)
  local state = call('HMGET', HOST(host), 'r', 'p', 'rd', 'rw', 'od', 'oc', 'op', 'ou')
  local ends = tonumber(state[8])
  if ends and ends <= now then
    call('HDEL', HOST(host), 'od', 'oc', 'op', 'ou')
    mark_held(host)
    state[5], state[6], state[7] = false, false, false
  end
  local any = false
  for i = 1, 7 do any = any or state[i] end
  if not any then
    call('HDEL', HOST(host), 'x')
    return FREE
  end
  local rest = tonumber(state[1]) or 0
  return {
    till = state[7] and math.max(rest, ends or FOREVER) or rest,
    probation = state[2],
    robots_delay = tonumber(state[3]) or 0,
    robots_wait = tonumber(state[4]) or 0,
    delay = tonumber(state[5]),
    concurrency = tonumber(state[6]),
  }
end

local function knows_robots(host)
  return (tonumber(call('HGET', HOST(host), 'ro')) or 0) > now
end

-- ms; one that has not answered yet is asked at the first rate.
local function adaptive_gap(host)
  return tonumber(call('HGET', HOST(host), 'g')) or 1000 / pace_rules().FIRST_RATE
end

-- Slots of a host, or of "@<address>", that fetches outside of the queue have, or wait for, and when the
-- first of them lapses (ms). `key` has the `v` of the place.
local function count_permits(place, key)
  local n, first, permits = 0, FOREVER, call('HVALS', PERMITS(place))
  for _, permit in ipairs(permits) do
    local kind, ends = string.match(permit, '^(%a) %d+ (%d+)$')
    ends = tonumber(ends) or 0
    if kind ~= 'o' and ends > now then n, first = n + 1, math.min(first, ends) end
  end
  if #permits == 0 then call('HDEL', key, 'v') end
  return n, first
end

-- An address in this claim: its slots that are taken, those beside the queue, and its next time. `full`
-- says that one of them held it up.
local addresses = {}

local function load_address(name)
  local address = addresses[name]
  if not address then
    local state = call('HMGET', ADDRESS(name), 'a', 'n', 'd', 'v')
    address = {name = name, active = math.max(0, tonumber(state[1]) or 0), next_time = tonumber(state[2]) or 0,
      unsent = is_unsent(state[3]), beside = 0, until_then = 0}
    if state[4] then address.beside, address.until_then = count_permits('@' .. name, ADDRESS(name)) end
    addresses[name] = address
  end
  return address
end

local function room_at(address, concurrency, delay)
  if delay > 0 and (address.unsent or address.next_time > now + AHEAD) then return 0 end
  local room = concurrency > 0 and concurrency - address.active - address.beside or math.huge
  return delay > 0 and math.min(room, 1) or room
end

-- Claim's choice of proxies of the pool, for one place at a time. Follows the names of claim.lua.
via.LOOK_AGAIN = 1000  -- ms until a place is examined again that nothing else would wake
do  -- a script may have 200 locals at a time
local WINDOW = 64  -- proxies that are looked at for one place in one claim
local NO_POOL, NO_PROXY = 1000, 5000  -- ms until a place is examined again
local LONG = 30000  -- ms that the proxies of a tier rest, from which the next tier is used
local MANY = 1000  -- values passed to one call
local exhausted = {}  -- choice -> places in this claim that found all their proxies full
local ENOUGH = 5  -- of them, after which others of the choice are not examined

-- Whether an entry {tier, country, tag, ...} has what the terms of a choice ask for.
local function fits(entry, terms)
  for _, term in ipairs(terms) do
    local country, tier = string.match(term, '^country=(%a+)$'), string.match(term, '^tier=(%d+)$')
    local found = country and entry[2] == country or tier and entry[1] == tonumber(tier)
    if not country and not tier then
      for i = 3, #entry do found = found or entry[i] == term end
    end
    if not found then return false end
  end
  return true
end

-- The ring of a choice: its proxies by tier, the cheapest first. Returns its tiers: {tier, how many, ...}.
local function build_ring(choice, version)
  local out, terms, members, counts, tiers = {}, {}, {}, {}, {}
  for _, id in ipairs(call('SMEMBERS', OUT)) do out[id] = true end
  for term in string.gmatch(string.sub(choice, 6), '[^,]+') do terms[#terms + 1] = term end
  local all = call('HGETALL', POOL)
  for i = 1, #all, 2 do
    local entry = cmsgpack.unpack(all[i + 1])
    if not out[all[i]] and fits(entry, terms) then
      members[#members + 1] = integer(entry[1] * via.TIER + tonumber(all[i]))
      members[#members + 1] = all[i]
      if not counts[entry[1]] then tiers[#tiers + 1] = entry[1] end
      counts[entry[1]] = (counts[entry[1]] or 0) + 1
    end
  end
  call('DEL', RING(choice))
  for i = 1, #members, MANY do
    call('ZADD', RING(choice), unpack(members, i, math.min(i + MANY - 1, #members)))
  end
  table.sort(tiers)
  local flat = {}
  for _, tier in ipairs(tiers) do
    flat[#flat + 1], flat[#flat + 2] = tier, counts[tier]
  end
  call('HSET', RINGS, choice, cmsgpack.pack({version, flat}))
  return flat
end

local rings, pool_version = {}, nil  -- those that this claim has read

local function tiers_of(choice)
  if pool_version == nil then pool_version = call('GET', POOL_VERSION) end
  if pool_version and not rings[choice] then
    local kept = call('HGET', RINGS, choice)
    local version, flat = unpack(kept and cmsgpack.unpack(kept) or {})
    rings[choice] = version == pool_version and flat or build_ring(choice, pool_version)
  end
  return rings[choice]
end

-- Up to n of the `count` members of a ring from rank `first`, beginning with number `from`, in a circle.
local function slice(choice, first, count, from, n)
  n = math.min(n, count)
  local ids = call('ZRANGE', RING(choice), first + from, first + math.min(count, from + n) - 1)
  if #ids < n then
    for _, id in ipairs(call('ZRANGE', RING(choice), first, first + n - #ids - 1)) do ids[#ids + 1] = id end
  end
  return ids
end

local function number_of(text) return tonumber(string.sub(redis.sha1hex(text), 1, 8), 16) end

-- The proxy of a session at this place; another one after a block, or when it is out.
local function of_session(pool, choice, session, first, count, kept, turn)
  if kept and call('ZSCORE', RING(choice), kept) then return {kept} end
  if count == 0 then return {} end
  local from = number_of(session .. ':' .. (turn or '0')) % count
  local some = slice(choice, first, count, from, WINDOW)
  local busy, chosen = call('ZMSCORE', BUSY(pool.host), unpack(some)), some[1]
  for i, id in ipairs(some) do
    if (tonumber(busy[i] or 0) or 0) < now + LONG or tonumber(busy[i]) >= FOREVER then chosen = id break end
  end
  call('HSET', HOST(pool.place), 'px', chosen)
  return {chosen}
end

-- Returns nil for a place whose route is no choice of the pool.
function via.open_pool(place)
  local choice, each, session = via.pool_route(place)
  if not choice then return nil end
  local pool = {place = place, host = via.host_in(place), each = each, ids = {}, scores = {}, i = 0, last = 0,
    count = 0, taken = 0, most = math.huge, soonest = FOREVER, start = 0}
  local tiers = tiers_of(choice)
  if not tiers then
    pool.unpublished = true
    return pool
  end
  pool.choice = choice
  if (exhausted[choice] or 0) >= ENOUGH then
    pool.full, pool.passed, pool.sticky, pool.last_tier = true, true, true, true
    return pool
  end
  local state = call('HMGET', HOST(place), 'pc', 'l', 'lu', 'lt', 'lk', 'px', 'sx')
  local level, first, used = 1, 0, tonumber(state[2])
  while used and level < #tiers / 2 and tiers[2 * level - 1] < used do level = level + 1 end
  if state[3] then
    call('HDEL', HOST(place), 'lu')
    if level < #tiers / 2 then
      level = level + 1
      local trial = now + via.trial_after(tonumber(state[5]) or 0)
      call('HSET', HOST(place), 'l', tiers[2 * level - 1], 'lt', integer(trial))
      via.note_tier(place, tiers[2 * level - 1])
    end
  elseif level > 1 and (tonumber(state[4]) or 0) <= now then  -- one request tries the cheaper tier
    pool.most = 1
    call('HSET', HOST(place), 'lt', integer(now + via.trial_after(tonumber(state[5]) or 0)))
    level = level - 1
  end
  pool.last_tier = level >= #tiers / 2
  for i = 1, level - 1 do first = first + tiers[2 * i] end
  local count = tiers[2 * level] or 0
  pool.count = count
  if session ~= '' then pool.ids = of_session(pool, choice, session, first, count, state[6], state[7])
  elseif count > 0 then
    pool.start = (tonumber(state[1]) or number_of(place)) % count
    pool.ids = slice(choice, first, count, pool.start, WINDOW)
  end
  pool.sticky = session ~= ''
  pool.size = #pool.ids
  call('ZREMRANGEBYSCORE', BUSY(pool.host), '-inf', integer(now))
  if #pool.ids > 0 then pool.scores = call('ZMSCORE', BUSY(pool.host), unpack(pool.ids)) end
  return pool
end

local function wait_for(pool, id, from)
  via.mark_busy(pool.host, id, from)
  if from >= FOREVER then pool.unknown = true else pool.soonest = math.min(pool.soonest, from) end
end

-- How many requests a proxy may have in flight: one that has not proved itself, or fails, few.
local function cap_of(most, failures, proved)
  most = tonumber(most) or 0
  if most <= 0 then most = math.huge end
  if proved and not failures then return most end
  return math.min(most, via.MAX_FAILURES - (tonumber(failures) or 0))
end

local rooms_of = {}  -- proxy -> how many more requests it may have; of those that this claim has looked at

local function room_of(id)
  if not rooms_of[id] then
    local proxy = call('HMGET', PROXY(id), 'a', 'm', 'f', 'ok')
    rooms_of[id] = cap_of(proxy[2], proxy[3], proxy[4]) - (tonumber(proxy[1]) or 0)
  end
  return rooms_of[id]
end

-- The pair of a proxy, if it may be used now.
local function examine(pool, id, concurrency)
  if room_of(id) <= 0 then
    pool.full = true
    return nil
  end
  local name = pool.host .. '|' .. id
  local state = call('HMGET', HOST(name), 'a', 'n', 'd', 'r', 'p', 'g', 'v')
  local active, next_time = math.max(0, tonumber(state[1]) or 0), tonumber(state[2]) or 0
  local from = math.max(claimable_from(next_time, state[3]), tonumber(state[4]) or 0)
  if active > 0 and is_unsent(state[3]) then from = FOREVER end
  if from > now then return wait_for(pool, id, from) end
  local limit = state[5] and 1 or pool.each and concurrency or math.huge
  local beside, until_then = 0, 0
  if state[7] then beside, until_then = count_permits(name, HOST(name)) end
  if active + beside >= limit then
    if beside > 0 then pool.unknown = true end  -- the fetch beside the queue may be over earlier
    return wait_for(pool, id, active > 0 and FOREVER or until_then)
  end
  return {id = id, name = name, next_time = next_time, at = pool.each and math.max(now, next_time) or now,
    gap = tonumber(state[6]) or 1000 / pace_rules().FIRST_RATE, trial = state[5], unsent = state[3],
    full = active + beside + 1 >= limit}
end

local function next_pair(pool, concurrency)
  while pool.i < #pool.ids do
    pool.i = pool.i + 1
    local id, score = pool.ids[pool.i], tonumber(pool.scores[pool.i] or nil)
    if score and score > now then
      if score >= FOREVER then pool.unknown = true else pool.soonest = math.min(pool.soonest, score) end
    else
      local pair = examine(pool, id, concurrency)
      if pair then return pair end
    end
  end
end

-- The last request that was taken goes through this proxy.
local function assign(pool, pair, lane, delay, adaptive, empty)
  local place = #rids
  local rid, key, d, later = rids[place], HOST(pair.name), nil, nil
  owners[2 * place] = generation .. '.' .. sequence .. '~' .. pair.id .. '|' .. lane
  routed[#routed + 1], routed[#routed + 2] = rid, pair.id
  add_active(key, 1)
  add_active(PROXY(pair.id), 1)
  rooms_of[pair.id] = rooms_of[pair.id] - 1
  call('PERSIST', key)
  if pool.each and adaptive then
    local bound = pace_rules().held_up(pair.next_time, pair.at, pair.gap) and not empty
    if bound then call('HINCRBY', key, 'w', 1) else call('HDEL', key, 'w') end
    later = pace_rules().next_after(pair.next_time, pair.at, pair.gap, 1, delay)
  elseif pool.each and delay > 0 then later = pair.at + delay end
  if later then call('HSET', key, 'n', exact(later)) end
  if pool.each and delay > 0 then
    d = integer(delay) .. ' ' .. rid
    call('HSET', key, 'd', d)
  elseif pair.unsent then call('HDEL', key, 'd') end
  if pair.trial then call('HSET', key, 'p', 2) end
  if pool.each and (delay > 0 or pair.at > now) then
    spaced[#spaced + 1], spaced[#spaced + 2] = rid, pair.at
  end
  if d or pair.full or pair.trial then wait_for(pool, pair.id, FOREVER)
  elseif later and later > now then wait_for(pool, pair.id, later)
  else pool.ids[#pool.ids + 1] = pair.id end  -- it may be used again, after the others
end

-- Takes up to n requests of a lane, each through a free proxy; the limits are those of a pair. Returns how
-- many, and whether the lane is empty now. `dry`: no proxy was left for more.
function via.take_proxied(pool, lane, n, delay, adaptive, concurrency)
  local got = 0
  while got < n do
    if pool.taken >= pool.most then
      pool.dry, pool.again = true, true
      break
    end
    local pair = next_pair(pool, concurrency)
    if not pair then
      pool.dry = true
      break
    end
    local some, empty = take_lane(lane, 1)
    if some == 0 then
      pool.i = pool.i - 1
      return got, true
    end
    assign(pool, pair, lane, delay, adaptive, empty)
    got, pool.taken, pool.last = got + 1, pool.taken + 1, pool.i
    if empty then return got, true end
  end
  return got, false
end

-- Operators are told of a place that no proxy can serve, or none for long.
local function note_lack(place) call('ZADD', LACKING, 'NX', integer(now), place) end

-- When a place that found no free proxy is examined again; earlier, if one of its pairs is free before.
function via.dry_until(pool)
  if pool.unpublished then
    note_lack(pool.place)
    return now + NO_POOL
  end
  local first = pool.soonest
  if not pool.last_tier and not pool.full and not pool.unknown and (pool.count == 0 or first > now + LONG) then
    call('HSET', HOST(pool.place), 'lu', 1)  -- the proxies of this tier do not work here
    return now + 1
  end
  if pool.again then return now end
  if pool.full and not pool.passed and pool.taken == 0 then
    exhausted[pool.choice] = (exhausted[pool.choice] or 0) + 1
  end
  if pool.count == 0 and not pool.passed then
    note_lack(pool.place)
    return now + NO_PROXY
  end
  if pool.taken == 0 and not pool.sticky and not pool.full and not pool.unknown and first > now + LONG then
    note_lack(pool.place)
  end
  if pool.full then
    call('ZADD', STALLED, integer(now), pool.place)
    first = math.min(first, now + via.LOOK_AGAIN)
  end
  if pool.unknown then first = math.min(first, now + via.LOOK_AGAIN) end
  if not pool.sticky and pool.count > pool.size then
    call('HSET', HOST(pool.place), 'pc', (pool.start + pool.size) % pool.count)
    if call('ZCARD', BUSY(pool.host)) < pool.count then first = math.min(first, now + 5)
    else
      local soonest = call('ZRANGEBYSCORE', BUSY(pool.host), '(' .. integer(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      first = math.min(first, tonumber(soonest[2]) or now + 5, now + via.LOOK_AGAIN)
    end
  end
  return math.max(now, first)
end

function via.close_pool(pool)
  if pool.last > 0 then
    call('ZREM', STALLED, pool.place)
    call('ZREM', LACKING, pool.place)
  end
  if pool.last > 0 and not pool.sticky then
    call('HSET', HOST(pool.place), 'pc', (pool.start + (pool.last - 1) % pool.size + 1) % pool.count)
  end
end

-- What operators and the robots.txt say about the host of a place, over the rules of the place itself.
function via.with_orders(rules, host)
  local state = call('HMGET', HOST(host), 'x', 'rd', 'rw', 'od', 'oc', 'op', 'ou')
  if not state[1] then return rules end
  local ends = tonumber(state[7])
  if ends and ends <= now then state[4], state[5], state[6] = false, false, false end
  return {
    till = state[6] and math.max(rules.till, ends or FOREVER) or rules.till,
    probation = rules.probation,
    robots_delay = tonumber(state[2]) or 0,
    robots_wait = tonumber(state[3]) or 0,
    delay = tonumber(state[4]),
    concurrency = tonumber(state[5]),
  }
end
end

-- Affinity: a host belongs to the node of the slot that the hash of its name, or of its domain, names. A claim takes the
-- hosts of its own node first. Those of another node follow when they are due for longer, or at once when
-- that node does not ask for more.
local affinity = {}
do
local RESERVED = 250  -- ms for which a due host is left to a node that has asked for more within this time
local HEAD_START = 2000  -- ms by which a host of another node must have been due earlier to be taken before own ones
local LEAST, MOST = 16, 256  -- due hosts that one claim looks at
local UPCOMING = 16  -- hosts that are looked at to find out when to ask again
local LONGEST = 253  -- characters of a name of a host
local LABELS = 9  -- at the end of a name that can be a domain: unpack has a limit, and pages name the hosts

local by_domain, generations, slots
local hungry = {}  -- generation -> whether it has asked for more

-- Reads AFFINITY. Without it, or when it does not name this generation and another one, all hosts are equal.
local function load_table()
  local text = redis.pcall('GET', AFFINITY)  -- damage, of which a node writes the table anew
  local readable, kept = pcall(cmsgpack.unpack, type(text) == 'string' and text or '')
  if not readable or type(kept) ~= 'table' or type(kept[2]) ~= 'table' or type(kept[3]) ~= 'string' then return end
  local members, n = {}, 0
  for _, member in ipairs(kept[2]) do members[tostring(member)], n = true, n + 1 end
  if n < 2 or not members[generation] then return end
  by_domain, generations, slots, affinity.members = kept[1] == 'domain', kept[2], kept[3], members
  affinity.count = n
end

-- The names whose hash decides: the host without its route, or the domain that somebody has registered. DOMAINS says
-- of the ends of names what the Public Suffix List does.
local function names_of(hosts)
  local names = {}
  for i, host in ipairs(hosts) do names[i] = via.host_in(host) end
  if not by_domain then return names end
  local ends, places = {}, {}
  for i, name in ipairs(names) do
    name = string.gsub(name, ':%d+$', '')
    name = string.gsub(name, '%.$', '')
    names[i] = name
    places[i] = #ends
    if #name <= LONGEST and not string.find(name, '%.%d+$') and not string.find(name, '[%]/@]') then
      local starts, at = {1}, 1
      while at do
        at = string.find(name, '.', at, true)
        at = at and at + 1
        starts[#starts + 1] = at
      end
      for label = math.max(1, #starts - LABELS + 1), #starts do
        ends[#ends + 1] = string.sub(name, starts[label])
      end
    end
  end
  places[#names + 1] = #ends
  local rules = #ends > 0 and redis.pcall('HMGET', DOMAINS, unpack(ends)) or {}
  for i in ipairs(names) do
    local first, last = places[i] + 1, places[i + 1]
    local suffix = 1  -- labels of the public suffix
    for place = first, last do
      if rules[place] then
        suffix = last - place + 1 + (tonumber(rules[place]) or 0)
        if place == first then suffix = math.min(suffix, last - first + 1) end
        break
      end
    end
    if last - first + 1 > suffix then names[i] = ends[last - suffix] end
  end
  return names
end

-- The generation to which each host belongs; nil for what is no host.
local function owners_of(hosts)
  local owners = {}
  for i, name in ipairs(names_of(hosts)) do
    if not string.find(name, '^[/@]') then
      local slot = tonumber(string.sub(redis.sha1hex(name), 1, 3), 16)
      local high, low = string.byte(slots, 2 * slot + 1, 2 * slot + 2)
      owners[i] = low and generations[256 * high + low + 1]
    end
  end
  return owners
end

-- Of generations that ask for more, those that do not take part. Leaving requests to the others would be in vain.
function affinity.strangers(asking)
  if ARGV[6] == '1' and want > 0 then load_table() end
  if not affinity.members then return asking end
  local strangers = {}
  for _, other in ipairs(asking) do
    hungry[other] = true
    if not affinity.members[other] then strangers[#strangers + 1] = other end
  end
  return strangers
end

-- The due hosts that this claim takes, in order.
function affinity.due()
  local most = math.max(LEAST, math.min(MOST, want * affinity.count))
  local listed = call('ZRANGEBYSCORE', HOSTS, '-inf', integer(now), 'WITHSCORES', 'LIMIT', 0, most)
  local hosts, since, own, others = {}, {}, {}, {}
  for i = 1, #listed, 2 do hosts[#hosts + 1], since[#since + 1] = listed[i], tonumber(listed[i + 1]) end
  local owners = owners_of(hosts)
  for i in ipairs(hosts) do
    local owner = owners[i]
    if not owner or owner == generation then
      own[#own + 1] = i
      if #own == want then break end
    elseif not hungry[owner] or since[i] <= now - RESERVED then others[#others + 1] = i end
  end
  local due, next_own, next_other = {}, 1, 1
  while #due < want and (own[next_own] or others[next_other]) do
    local mine, other = own[next_own], others[next_other]
    if not mine or other and since[other] + HEAD_START < since[mine] then
      due[#due + 1], next_other = hosts[other], next_other + 1
    else due[#due + 1], next_own = hosts[mine], next_own + 1 end
  end
  return due
end

-- The first hosts in the form of ZRANGE WITHSCORES, with the time from which on this generation takes them.
function affinity.first()
  local listed = call('ZRANGE', HOSTS, 0, UPCOMING - 1, 'WITHSCORES')
  local hosts = {}
  for i = 1, #listed, 2 do hosts[#hosts + 1] = listed[i] end
  local owners, first = owners_of(hosts), nil
  for i in ipairs(hosts) do
    local from = tonumber(listed[2 * i])
    if owners[i] and owners[i] ~= generation and hungry[owners[i]] then from = from + RESERVED end
    first = math.min(first or from, from)
  end
  if #hosts == UPCOMING then first = math.min(first, math.max(tonumber(listed[#listed]), now + LEFT)) end
  return {'', first}
end
end

do
local function promote()
  local due = call('ZRANGEBYSCORE', DELAYED, '-inf', integer(now), 'LIMIT', 0, 200)
  local queues = {}
  for _, rid in ipairs(due) do
    local own = call('HGET', OWN, rid)
    if own and split_own(own) == 'd' then
      append(queues, leave(rid, own), rid)
      call('HDEL', OWN, rid)
    else
      call('ZREM', DELAYED, rid)  -- damage, which must not stop the others
      if own and not split_own(own) then doubt() end
    end
  end
  enqueue(queues)
end

promote()

local function count_poorer()
  local n, mine = 0, nil
  local asking = call('ZRANGEBYSCORE', STARVED, integer(now - STARVED_FOR), '+inf')
  for _, other in ipairs(affinity.strangers(asking)) do
    if other ~= generation then
      mine = mine or call('SCARD', INPROGRESS(generation))
      if 2 * call('SCARD', INPROGRESS(other)) < mine - 1 then n = n + 1 end
    end
  end
  return n
end

poorer = count_poorer()
end

-- The first lanes of a host in the order in which they are served. Tasks of equal priority take turns, whatever the
-- depth of their requests: first comes the one whose last turn is longest ago, and of its lanes that of the least
-- depth. Also returns lane -> another one of the same task and priority, if tasks take turns.
local in_turn
do
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
end

-- Takes up to `quota` requests of one host. Every host examined either yields some, or leaves HOSTS,
-- or gets a later time there, or loses lanes, so claim always terminates.
local function take(host, quota)
  local state = call('HMGET', HOST(host), 'a', 'n', 't', 'x', 'ip', 'd', 'v')
  local active, next_time, turn = math.max(0, tonumber(state[1]) or 0), tonumber(state[2]) or 0, tonumber(state[3]) or 0
  local rules = state[4] and rules_of(host) or FREE
  local through = string.find(host, '|', 1, true)  -- a place, whose requests go through proxies
  local pool, site = nil, host
  if through then
    site = via.host_in(host)
    pool, rules = via.open_pool(host), via.with_orders(rules, site)
  end
  local beside, until_then = 0, 0
  if state[7] then beside, until_then = count_permits(host, HOST(host)) end
  local resting, robots_wait = rules.till > now, rules.robots_wait > now
  local from = claimable_from(next_time, state[6])
  if from > now and not resting then
    call('ZADD', HOSTS, integer(math.ceil(from)), host)
    return 0
  end
  if active > 0 and not resting and is_unsent(state[6]) then
    call('ZREM', HOSTS, host)  -- note_sent adds it again, or free_slots
    return 0
  end
  -- Lanes that must wait do not hide others: requests of cancelled tasks wait for nothing.
  local most = (resting or robots_wait) and MAX_LANES.chosen or MAX_LANES.few
  local listed = call('ZRANGE', LANES(host), 0, most - 1, 'WITHSCORES')
  if #listed == 2 * MAX_LANES.few and most == MAX_LANES.few then
    most = MAX_LANES.more
    listed = call('ZRANGE', LANES(host), 0, most - 1, 'WITHSCORES')
  end
  local members, others = in_turn(listed, turn)
  local place = state[5] and address_of(host)
  local address = place and load_address(place)
  local crowd, spacing = 0, 0  -- the strictest limits of the address, 0 = none
  local got, gone, skipped, kept, limit, waits, asked, obeyed = 0, 0, 0, 0, math.huge, false, false, false
  local unsent  -- `d` of the host, if a delay is to be kept after the request that is claimed here
  local apart, holders = 0, {}  -- lanes of tasks that one worker runs, and has no room or is elsewhere
  for _, member in ipairs(members) do
    local id, rank = string.match(member, '^(%d+):(%d+)$')
    local task, lane = id and task_of(id), member .. ':' .. host
    local polite = task and task.state == 'running'
    local served, holder = true, nil
    if task and task.pin and task.state ~= 'paused' then served, holder = serves(task) end
    if not task then
      gone = gone + call('ZREM', LANES(host), member)
      call('DEL', LANE(lane))
    elseif task.state == 'paused' then
      gone = gone + call('ZREM', LANES(host), member)
      call('SADD', PAUSED(id), lane)
    elseif not served then
      if apart == 0 and #members == most and most < MAX_LANES.chosen then  -- they do not hide others
        local rest = call('ZRANGE', LANES(host), most, MAX_LANES.chosen - 1)
        most = MAX_LANES.chosen
        for _, more in ipairs(rest) do members[#members + 1] = more end
      end
      apart = apart + 1
      holders[holder or ''] = true
    elseif polite and (resting or robots_wait and task.robots) then
      skipped = skipped + 1
    elseif got < quota and not (polite and waits) then
      local n, delay, gap, at, unread = quota - got, 0, nil, now, false
      local pairs_delay, pairs_adaptive, pairs_concurrency
      if task.pin then n = math.min(n, rooms[id]) end
      if polite then
        at = math.max(now, next_time)
        delay = rules.delay or task.delay
        local concurrency = rules.concurrency or task.concurrency
        if task.robots then
          delay, obeyed = math.max(delay, rules.robots_delay), true
          unread = not knows_robots(site)
          if unread then concurrency = 1 end  -- this one brings the robots.txt
        end
        if rules.probation then concurrency = 1 end
        local homeless = task.shares and not address and not through  -- this one only finds out the address
        if homeless then concurrency, delay = 1, 0 end
        -- An order's delay replaces the adaptive rate.
        local adaptive = task.auto and not rules.delay and not homeless
        if pool then
          pairs_delay, pairs_adaptive, pairs_concurrency = delay, adaptive, concurrency
          if pool.each then  -- the limits of the host hold for each proxy
            delay, adaptive, concurrency = 0, false, unread and 1 or math.huge
          end
        end
        gap = adaptive and adaptive_gap(host)
        -- The strictest limit so far applies, so that a task with a low limit is never starved.
        limit = math.min(limit, concurrency)
        local room = limit - active - beside - kept
        n = math.min(n, room)
        if address and task.shares then
          if task.ip_concurrency > 0 then
            crowd = crowd > 0 and math.min(crowd, task.ip_concurrency) or task.ip_concurrency
          end
          spacing = math.max(spacing, task.ip_delay)
          n = math.min(n, room_at(address, crowd, spacing))
          if spacing > 0 then at = math.max(at, address.next_time) end
        end
        if delay > 0 then n = math.min(n, 1)
        elseif gap then n = math.min(n, pace_rules().batch_of(gap, next_time, at)) end
        if left < poorer and n > 0 and not task.pin and not pool then
          local due = math.min(room, call('LLEN', LANE(lane)))
          if n >= due then n, kept, left = due - 1, kept + 1, left + 1 end
        end
      end
      if n > 0 then
        local some, empty
        if pool and polite then
          some, empty = via.take_proxied(pool, lane, n, pairs_delay, pairs_adaptive, pairs_concurrency)
        else some, empty = take_lane(lane, n) end
        count(task, 'inprogress', some)
        if task.pin then rooms[id] = rooms[id] - some end
        got, active, asked = got + some, active + some, asked or polite and some > 0
        if address and some > 0 then
          address.active = address.active + some
          if polite and spacing > 0 then
            address.next_time, address.unsent = at + spacing, true
            local d = integer(spacing) .. ' ' .. rids[#rids]
            call('HSET', ADDRESS(address.name), 'n', exact(address.next_time), 'd', d)
          end
        end
        local served = member
        if empty then
          gone = gone + call('ZREM', LANES(host), member)
          served = others and others[member]  -- has the turn of its task from now on
        end
        if served and #members > 1 then
          turn = turn + 1
          call('ZADD', LANES(host), 'XX', integer(string.match(served, '%d+$') * TURNS + turn % TURNS), served)
        end
        if gap and some > 0 then
          -- The rate may only grow while it is what limits the host.
          local bound = pace_rules().held_up(next_time, at, gap) and not empty
          if bound then call('HINCRBY', HOST(host), 'w', some) else call('HDEL', HOST(host), 'w') end
          next_time, waits = pace_rules().next_after(next_time, at, gap, some, delay), true
        elseif polite and some > 0 and delay > 0 then
          next_time, waits = at + delay, true
        end
        if polite and some > 0 and delay > 0 then unsent = integer(delay) .. ' ' .. rids[#rids] end
        if polite and some > 0 and (delay > 0 or spacing > 0 or at > now) then
          for i = #rids - some + 1, #rids do
            spaced[#spaced + 1], spaced[#spaced + 2] = rids[i], at
          end
        end
      end
    end
  end
  if got > 0 then
    add_slots(host, got, place)
    if state[2] or state[4] or obeyed or pool then call('PERSIST', HOST(host)) end  -- it may have been idle
  end
  if turn ~= (tonumber(state[3]) or 0) then call('HSET', HOST(host), 't', turn) end
  if waits then
    call('HSET', HOST(host), 'n', exact(next_time))
  end
  if unsent then call('HSET', HOST(host), 'd', unsent)
  elseif state[6] and got > 0 then call('HDEL', HOST(host), 'd') end
  if rules.probation and asked then call('HSET', HOST(host), 'p', 2) end
  if pool then via.close_pool(pool) end
  from = claimable_from(next_time, state[6] and got == 0)
  if gone == #members and (gone < most or call('EXISTS', LANES(host)) == 0) then
    call('ZREM', HOSTS, host)
    if active <= 0 then rest_host(host) end
  elseif apart > 0 and apart + gone == #members and not holders[''] then
    call('ZREM', HOSTS, host)
    local after = math.max(now, from)
    for holder in pairs(holders) do
      -- A worker without room here is asked again a little later.
      local due = holder == generation and math.max(after, now + LEFT) or after
      call('ZADD', APART(holder), integer(math.ceil(due)), host)
    end
  elseif skipped > 0 and skipped + apart + gone == #members then
    local till = resting and rules.till or rules.robots_wait
    if through then till = math.min(till, now + via.LOOK_AGAIN) end  -- an order for its host does not wake a place
    call('ZADD', HOSTS, integer(math.ceil(math.max(next_time, till))), host)
  elseif active <= 0 and beside >= limit then
    call('ZADD', HOSTS, integer(until_then), host)  -- earlier, when one of those fetches is over
  elseif active + beside >= limit or unsent then
    -- free_slots adds it again, or note_sent: a worker may send a request later than it was claimed.
    call('ZREM', HOSTS, host)
  elseif pool and pool.dry and not resting then
    call('ZADD', HOSTS, integer(math.ceil(math.max(from, via.dry_until(pool)))), host)
  elseif address and not resting and (crowd > 0 or spacing > 0) and room_at(address, crowd, spacing) <= 0 then
    address.full = true
    call('ZREM', HOSTS, host)
    local after = math.max(now, from) + (got > 0 and 1 or 0)  -- those that got nothing come first
    call('ZADD', WAITING(address.name), integer(math.ceil(after)), host)
    local crowded = crowd > 0 and address.active + address.beside >= crowd
    if address.unsent or crowded and address.active > 0 then call('ZREM', HOSTS, '@' .. address.name)  -- as above
    else
      local due = crowded and address.until_then or address.next_time - AHEAD
      call('ZADD', HOSTS, integer(math.ceil(due)), '@' .. address.name)
    end
  else
    call('ZADD', HOSTS, integer(resting and now or math.ceil(math.max(now, from))), host)
  end
  return got
end

-- The same for the hosts that wait for an address, by turns.
local MAX_HOSTS = 50  -- of an address that one claim examines

local function take_at(name, quota)
  local address, got = load_address(name), 0
  address.full = false
  if address.next_time <= now + AHEAD then
    local some = math.min(quota, MAX_HOSTS)
    for _, host in ipairs(call('ZRANGEBYSCORE', WAITING(name), '-inf', integer(now), 'LIMIT', 0, some)) do
      call('ZREM', WAITING(name), host)
      got = got + take(host, quota - got)
      if address.full or got >= quota then break end
    end
  end
  if not address.full then show_address(name) end
  return got
end

local due = affinity.members and affinity.due()
due = due or call('ZRANGEBYSCORE', HOSTS, '-inf', integer(now), 'LIMIT', 0, want)
local mine, got = 0, 0
local some_apart = call('EXISTS', APART(generation)) == 1
if some_apart then
  local hosts = call('ZRANGEBYSCORE', APART(generation), '-inf', integer(now), 'LIMIT', 0, want)
  mine = #hosts
  for _, host in ipairs(due) do hosts[#hosts + 1] = host end
  due = hosts
end
for i, host in ipairs(due) do
  if got >= want then break end
  if i <= mine then call('ZREM', APART(generation), host) end
  local quota, address = math.ceil((want - got) / (#due - i + 1)), string.match(host, '^@(.*)$')
  if address then got = got + take_at(address, quota) else got = got + take(host, quota) end
end

local wait = -1
local function sooner(first)
  if first[2] then
    local left = math.max(0, math.ceil(tonumber(first[2]) - now))
    if wait < 0 or left < wait then wait = left end
  end
end
sooner(affinity.members and got < want and affinity.first() or call('ZRANGE', HOSTS, 0, 0, 'WITHSCORES'))
sooner(call('ZRANGE', DELAYED, 0, 0, 'WITHSCORES'))
if some_apart or call('EXISTS', APART(generation)) == 1 then
  sooner(call('ZRANGE', APART(generation), 0, 0, 'WITHSCORES'))
end
if left > 0 then wait = LEFT end
if got < want and call('EXISTS', REQ) == 1 then  -- an idle node writes nothing
  call('ZADD', STARVED, integer(now), generation)
  call('PEXPIRE', STARVED, STARVED_FOR)
else
  call('ZREM', STARVED, generation)
end
save_tasks()
if #rids > 0 then
  keep_pulse()
  call('HSET', OWN, unpack(owners))
  call('SADD', INPROGRESS(generation), unpack(rids))
  call('SET', BATCH(generation), cmsgpack.pack({sequence, rids, spaced}))
end
return answer(wait)
