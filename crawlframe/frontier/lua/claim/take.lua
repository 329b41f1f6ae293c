-- Takes requests of one host, or place, at a time.

-- Lanes of a host that one claim examines; with more of them, those of one task must not hide another, and
-- where only some may go, not those either.
local MAX_LANES = {few = 16, more = 100, chosen = 500}

-- What is known of a host when its turn comes, and what this claim does with it.
local function begin_visit(host)
  local state = call('HMGET', HOST(host), 'a', 'n', 't', 'x', 'ip', 'd', 'v')
  local visit = {
    host = host, site = host, active = math.max(0, tonumber(state[1]) or 0), next_time = tonumber(state[2]) or 0,
    turn = tonumber(state[3]) or 0, d = state[6], rules = state[4] and gate.rules_of(host) or gate.FREE,
    beside = 0, until_then = 0,  -- slots of fetches outside of the queue
    got = 0, gone = 0, skipped = 0, apart = 0, kept = 0,  -- requests; lanes that are gone, must wait, or are of others
    holders = {},  -- generations that serve lanes of `apart`
    limit = math.huge, crowd = 0, spacing = 0,  -- the strictest limits of the host and of its address, 0 = none
    waits = false, obeyed = false, asked = false,
    unsent = nil,  -- `d` of the host, if a delay is to be kept after the request that is claimed here
  }
  visit.first_turn, visit.lasts = visit.turn, state[2] or state[4]
  if string.find(host, '|', 1, true) then  -- a place, whose requests go through proxies
    visit.site = via.host_in(host)
    visit.pool, visit.rules = via.open_pool(host), gate.with_orders(visit.rules, visit.site)
    visit.through = true
  end
  if state[7] then visit.beside, visit.until_then = gate.count_permits(host, HOST(host)) end
  visit.resting, visit.robots_wait = visit.rules.till > now, visit.rules.robots_wait > now
  local place = state[5] and address_of(host)
  visit.address = place and gate.load_address(place)
  return visit
end

-- Whether no lane need be looked at: the host was shown too early.
local function is_early(visit)
  if visit.resting then return false end
  local from = claimable_from(visit.next_time, visit.d)
  if from > now then call('ZADD', HOSTS, integer(math.ceil(from)), visit.host)
  elseif visit.active > 0 and is_unsent(visit.d) then
    call('ZREM', HOSTS, visit.host)  -- note_sent adds it again, or free_slots
  else return false end
  return true
end

local function list_lanes(visit)
  -- Lanes that must wait do not hide others: requests of cancelled tasks wait for nothing.
  local most = (visit.resting or visit.robots_wait) and MAX_LANES.chosen or MAX_LANES.few
  local listed = call('ZRANGE', LANES(visit.host), 0, most - 1, 'WITHSCORES')
  if #listed == 2 * MAX_LANES.few and most == MAX_LANES.few then
    most = MAX_LANES.more
    listed = call('ZRANGE', LANES(visit.host), 0, most - 1, 'WITHSCORES')
  end
  visit.members, visit.others = in_turn(listed, visit.turn)
  visit.most = most
end

local function hide_lane(visit, member) visit.gone = visit.gone + call('ZREM', LANES(visit.host), member) end

-- The lane is of a task that another generation serves, or has no room here.
local function set_apart(visit, holder)
  if visit.apart == 0 and #visit.members == visit.most and visit.most < MAX_LANES.chosen then  -- they do not hide others
    local rest = call('ZRANGE', LANES(visit.host), visit.most, MAX_LANES.chosen - 1)
    visit.most = MAX_LANES.chosen
    for _, more in ipairs(rest) do visit.members[#visit.members + 1] = more end
  end
  visit.apart = visit.apart + 1
  visit.holders[holder or ''] = true
end

-- How requests of a running task may go to this host now: {delay, gap, at, n, pair = {delay, adaptive, concurrency}}.
-- n: of this lane.
local function terms_of(visit, task, lane, n)
  local rules, pool, address = visit.rules, visit.pool, visit.address
  local at, unread, pair = math.max(now, visit.next_time), false, nil
  local delay = rules.delay or task.delay
  local concurrency = rules.concurrency or task.concurrency
  if task.robots then
    delay, visit.obeyed = math.max(delay, rules.robots_delay), true
    unread = not gate.knows_robots(visit.site)
    if unread then concurrency = 1 end  -- this one brings the robots.txt
  end
  if rules.probation then concurrency = 1 end
  local homeless = task.shares and not address and not visit.through  -- this one only finds out the address
  if homeless then concurrency, delay = 1, 0 end
  -- An order's delay replaces the adaptive rate.
  local adaptive = task.auto and not rules.delay and not homeless
  if pool then
    pair = {delay = delay, adaptive = adaptive, concurrency = concurrency}
    if pool.each then  -- the limits of the host hold for each proxy
      delay, adaptive, concurrency = 0, false, unread and 1 or math.huge
    end
  end
  local gap = adaptive and gate.adaptive_gap(visit.host)
  -- The strictest limit so far applies, so that a task with a low limit is never starved.
  visit.limit = math.min(visit.limit, concurrency)
  local room = visit.limit - visit.active - visit.beside - visit.kept
  n = math.min(n, room)
  if address and task.shares then
    if task.ip_concurrency > 0 then
      visit.crowd = visit.crowd > 0 and math.min(visit.crowd, task.ip_concurrency) or task.ip_concurrency
    end
    visit.spacing = math.max(visit.spacing, task.ip_delay)
    n = math.min(n, gate.room_at(address, visit.crowd, visit.spacing))
    if visit.spacing > 0 then at = math.max(at, address.next_time) end
  end
  if delay > 0 then n = math.min(n, 1)
  elseif gap then n = math.min(n, pace_rules().batch_of(gap, visit.next_time, at)) end
  if left < poorer and n > 0 and not task.pin and not pool then
    local due = math.min(room, call('LLEN', LANE(lane)))
    if n >= due then n, visit.kept, left = due - 1, visit.kept + 1, left + 1 end
  end
  return {delay = delay, gap = gap, at = at, n = n, pair = pair}
end

-- The address of the host has `some` more requests in flight.
local function note_address(visit, terms, some)
  local address = visit.address
  if not address or some == 0 then return end
  address.active = address.active + some
  if terms and visit.spacing > 0 then
    address.next_time, address.unsent = terms.at + visit.spacing, true
    local d = integer(visit.spacing) .. ' ' .. rids[#rids]
    call('HSET', ADDRESS(address.name), 'n', exact(address.next_time), 'd', d)
  end
end

-- The lane has had its turn.
local function note_turn(visit, member, empty)
  local served = member
  if empty then
    hide_lane(visit, member)
    served = visit.others and visit.others[member]  -- has the turn of its task from now on
  end
  if served and #visit.members > 1 then
    visit.turn = visit.turn + 1
    local score = string.match(served, '%d+$') * TURNS + visit.turn % TURNS
    call('ZADD', LANES(visit.host), 'XX', integer(score), served)
  end
end

-- `some` requests were taken on these terms: when the next may go.
local function note_times(visit, terms, some, empty)
  local delay, gap, at = terms.delay, terms.gap, terms.at
  if gap then
    -- The rate may only grow while it is what limits the host.
    local bound = pace_rules().held_up(visit.next_time, at, gap) and not empty
    if bound then call('HINCRBY', HOST(visit.host), 'w', some) else call('HDEL', HOST(visit.host), 'w') end
    visit.next_time, visit.waits = pace_rules().next_after(visit.next_time, at, gap, some, delay), true
  elseif delay > 0 then
    visit.next_time, visit.waits = at + delay, true
  end
  if delay > 0 then visit.unsent = integer(delay) .. ' ' .. rids[#rids] end
  if delay > 0 or visit.spacing > 0 or at > now then
    for i = #rids - some + 1, #rids do
      spaced[#spaced + 1], spaced[#spaced + 2] = rids[i], at
    end
  end
end

local function take_from(visit, task, member, n)
  local lane, terms, some, empty = member .. ':' .. visit.host, nil, 0, false
  if task.pin then n = math.min(n, rooms[task.id]) end
  if task.state == 'running' then
    terms = terms_of(visit, task, lane, n)
    n = terms.n
  end
  if n <= 0 then return end
  if terms and terms.pair then some, empty = via.take_proxied(visit.pool, lane, n, terms.pair)
  else some, empty = take_lane(lane, n) end
  count(task, 'inprogress', some)
  if task.pin then rooms[task.id] = rooms[task.id] - some end
  visit.got, visit.active = visit.got + some, visit.active + some
  visit.asked = visit.asked or terms ~= nil and some > 0
  note_address(visit, terms, some)
  note_turn(visit, member, empty)
  if terms and some > 0 then note_times(visit, terms, some, empty) end
end

local function take_turn(visit, member, quota)
  local id = string.match(member, '^(%d+):%d+$')
  local task = id and task_of(id)
  if not task then
    hide_lane(visit, member)
    call('DEL', LANE(member .. ':' .. visit.host))
    return
  elseif task.state == 'paused' then
    hide_lane(visit, member)
    call('SADD', PAUSED(id), member .. ':' .. visit.host)
    return
  elseif task.pin then
    local served, holder = serves(task)
    if not served then return set_apart(visit, holder) end
  end
  local polite = task.state == 'running'
  if polite and (visit.resting or visit.robots_wait and task.robots) then
    visit.skipped = visit.skipped + 1
  elseif visit.got < quota and not (polite and visit.waits) then
    take_from(visit, task, member, quota - visit.got)
  end
end

local function save_visit(visit)
  local key = HOST(visit.host)
  if visit.got > 0 then
    add_slots(visit.host, visit.got, visit.address and visit.address.name)
    if visit.lasts or visit.obeyed or visit.pool then call('PERSIST', key) end  -- it may have been idle
  end
  if visit.turn ~= visit.first_turn then call('HSET', key, 't', visit.turn) end
  if visit.waits then call('HSET', key, 'n', exact(visit.next_time)) end
  if visit.unsent then call('HSET', key, 'd', visit.unsent)
  elseif visit.d and visit.got > 0 then call('HDEL', key, 'd') end
  if visit.rules.probation and visit.asked then call('HSET', key, 'p', 2) end
  if visit.pool then via.close_pool(visit.pool) end
end

-- All that the host has is of tasks that other generations serve, or for which this one has no room.
local function leave_to_holders(visit, from)
  call('ZREM', HOSTS, visit.host)
  local after = math.max(now, from)
  for holder in pairs(visit.holders) do
    -- A worker without room here is asked again a little later.
    local due = holder == generation and math.max(after, now + LEFT) or after
    call('ZADD', APART(holder), integer(math.ceil(due)), visit.host)
  end
end

-- The host waits for its address.
local function wait_at_address(visit, from)
  local address = visit.address
  address.full = true
  call('ZREM', HOSTS, visit.host)
  local after = math.max(now, from) + (visit.got > 0 and 1 or 0)  -- those that got nothing come first
  call('ZADD', WAITING(address.name), integer(math.ceil(after)), visit.host)
  local crowded = visit.crowd > 0 and address.active + address.beside >= visit.crowd
  if address.unsent or crowded and address.active > 0 then
    call('ZREM', HOSTS, '@' .. address.name)  -- free_slots adds it again, or note_sent
  else
    local due = crowded and address.until_then or address.next_time - AHEAD
    call('ZADD', HOSTS, integer(math.ceil(due)), '@' .. address.name)
  end
end

-- The host is seen again when it may be asked next.
local function put_back(visit)
  local host, active, lanes_left = visit.host, visit.active, #visit.members - visit.gone
  local from = claimable_from(visit.next_time, visit.d and visit.got == 0)
  local function again(at) call('ZADD', HOSTS, integer(math.ceil(at)), host) end
  if lanes_left == 0 and (visit.gone < visit.most or call('EXISTS', LANES(host)) == 0) then
    call('ZREM', HOSTS, host)
    if active <= 0 then rest_host(host) end
  elseif visit.apart > 0 and visit.apart == lanes_left and not visit.holders[''] then
    leave_to_holders(visit, from)
  elseif visit.skipped > 0 and visit.skipped + visit.apart == lanes_left then
    local till = visit.resting and visit.rules.till or visit.rules.robots_wait
    if visit.through then till = math.min(till, now + via.LOOK_AGAIN) end  -- an order for its host does not wake a place
    again(math.max(visit.next_time, till))
  elseif active <= 0 and visit.beside >= visit.limit then
    again(visit.until_then)  -- earlier, when one of those fetches is over
  elseif active + visit.beside >= visit.limit or visit.unsent then
    -- free_slots adds it again, or note_sent: a worker may send a request later than it was claimed.
    call('ZREM', HOSTS, host)
  elseif visit.pool and visit.pool.dry and not visit.resting then
    again(math.max(from, via.dry_until(visit.pool)))
  elseif visit.address and not visit.resting and (visit.crowd > 0 or visit.spacing > 0)
    and gate.room_at(visit.address, visit.crowd, visit.spacing) <= 0 then
    wait_at_address(visit, from)
  else
    again(visit.resting and now or math.max(now, from))
  end
end

-- Takes up to `quota` requests of one host. Every host examined either yields some, or leaves HOSTS,
-- or gets a later time there, or loses lanes, so claim always terminates.
local function take_host(host, quota)
  local visit = begin_visit(host)
  if is_early(visit) then return 0 end
  list_lanes(visit)
  for _, member in ipairs(visit.members) do take_turn(visit, member, quota) end
  save_visit(visit)
  put_back(visit)
  return visit.got
end

-- The same for the hosts that wait for an address, by turns.
local MAX_HOSTS = 50  -- of an address that one claim examines

local function take_at(name, quota)
  local address, got = gate.load_address(name), 0
  address.full = false
  if address.next_time <= now + AHEAD then
    local some = math.min(quota, MAX_HOSTS)
    for _, host in ipairs(call('ZRANGEBYSCORE', WAITING(name), '-inf', integer(now), 'LIMIT', 0, some)) do
      call('ZREM', WAITING(name), host)
      got = got + take_host(host, quota - got)
      if address.full or got >= quota then break end
    end
  end
  if not address.full then show_address(name) end
  return got
end

-- entry: of HOSTS. Returns how many requests were taken.
function take(entry, quota)
  local address = string.match(entry, '^@(.*)$')
  if address then return take_at(address, quota) end
  return take_host(entry, quota)
end
