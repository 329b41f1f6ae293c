-- Claim's choice of proxies of the pool, for one place at a time. It needs the names of begin.lua and lanes.lua.
via.LOOK_AGAIN = 1000  -- ms until a place is examined again that nothing else would wake
local WINDOW = 64  -- proxies that are looked at for one place in one claim
local NO_POOL, NO_PROXY = 1000, 5000  -- ms until a place is examined again
local LONG = 30000  -- ms that the proxies of a tier rest, from which the next tier is used
local MANY = 1000  -- values passed to one call
local exhausted = {}  -- choice -> places in this claim that found all their proxies full
local ENOUGH = 5  -- of them, after which others of the choice are not examined

-- Whether an entry {tier, country, tag, ...} meets the terms of a choice.
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

local rings, pool_version = {}, nil  -- rings that this claim has read

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

-- The proxy of a session at this place; another proxy after a block, or when it is out.
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
  local choice, each, session = naming.pool_route(place)
  if not choice then return nil end
  local pool = {place = place, host = naming.host_in(place), each = each, ids = {}, scores = {}, i = 0, last = 0,
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

local rooms_of = {}  -- proxy that this claim has looked at -> how many more requests it may have

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
  local name = naming.pair(pool.host, id)
  local state = call('HMGET', HOST(name), 'a', 'n', 'd', 'r', 'p', 'g', 'v')
  local active, next_time = math.max(0, tonumber(state[1]) or 0), tonumber(state[2]) or 0
  local from = math.max(claimable_from(next_time, state[3]), tonumber(state[4]) or 0)
  local beside, until_then, some, awaited = 0, 0, true, 0
  if state[7] then beside, until_then, some, awaited = gate.count_permits(name) end
  if not some then call('HDEL', HOST(name), 'v') end
  local till = state[3] and math.max(awaited, unsent_until(state[3])) or 0
  if till > now and (active > 0 or till < FOREVER) then
    from, pool.unknown = math.max(from, till), true  -- it may be earlier
  end
  if from > now then return wait_for(pool, id, from) end
  local limit = state[5] and 1 or pool.each and concurrency or math.huge
  if active + beside >= limit then
    if beside > 0 then pool.unknown = true end  -- the fetch beside the queue may be over earlier
    return wait_for(pool, id, active > 0 and FOREVER or until_then)
  end
  return {id = id, name = name, next_time = next_time, at = pool.each and math.max(now, next_time) or now,
    gap = tonumber(state[6]) or gate.FIRST_GAP, trial = state[5], unsent = state[3],
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
local function assign(pool, pair, lane, terms, empty)
  local delay, place = terms.delay, #rids
  local rid, key, d, later = rids[place], HOST(pair.name), nil, nil
  owners[2 * place] = naming.hold_through(generation .. '.' .. sequence, pair.id) .. '|' .. lane
  routed[#routed + 1], routed[#routed + 2] = rid, pair.id
  add_active(key, 1)
  add_active(PROXY(pair.id), 1)
  rooms_of[pair.id] = rooms_of[pair.id] - 1
  call('PERSIST', key)
  if pool.each and terms.adaptive then
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

-- Takes up to n requests of a lane, each through a free proxy; the limits are the pair's. Returns how
-- many, and whether the lane is empty now. `dry`: no proxy was left for more.
function via.take_proxied(pool, lane, n, terms)
  local got = 0
  while got < n do
    if pool.taken >= pool.most then
      pool.dry, pool.again = true, true
      break
    end
    local pair = next_pair(pool, terms.concurrency)
    if not pair then
      pool.dry = true
      break
    end
    local some, empty = take_lane(lane, 1)
    if some == 0 then
      pool.i = pool.i - 1
      return got, true
    end
    assign(pool, pair, lane, terms, empty)
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
