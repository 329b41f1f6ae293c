-- Takes requests of one host, or place, at a time.

-- Lanes of a host that one claim examines; with more of them, the lanes of one task must not hide another's,
-- nor lanes that may go.
local MAX_LANES = {few = 16, more = 100, chosen = 500}

local visit = {}  -- the present one: a new table for each would cost more than the rest of a visit

-- The state of a host when its turn comes, and this claim's effects on it.
local function begin_visit(name)
  gate.open(name, nil, visit)
  visit.got, visit.gone, visit.apart, visit.kept = 0, 0, 0, 0  -- requests; lanes that are gone, or are of others
  visit.holders = nil  -- generations that serve lanes of `apart`
  visit.skipped, visit.till = 0, FOREVER  -- lanes that must wait, and until when
  visit.limit, visit.crowd, visit.spacing = math.huge, 0, 0  -- the strictest limits here and of the address, 0 = none
  visit.first_turn, visit.pool = visit.turn, nil
  visit.waits, visit.obeyed, visit.asked = false, false, false
  visit.unsent = nil  -- `d` of the host, if a delay is to be kept after the request that is claimed here
  if visit.rules.ended and not visit.through then
    call('HDEL', visit.key, 'od', 'oc', 'op', 'og', 'ou')
    mark_held(name)
  end
  if visit.rules.empty and not visit.through then call('HDEL', visit.key, 'x') end
  if visit.deserted then call('HDEL', visit.key, 'v') end
  if visit.through then
    if not via.open_pool then define.proxies() end
    visit.pool = via.open_pool(name)
  end
  visit.resting = gate.is_resting(visit)
end

local shown = {}  -- host -> time from which on it is seen again; written at the end, by show_hosts

local function show_again(visit, at) shown[visit.name] = integer(math.ceil(at)) end

local function hide(visit)
  shown[visit.name] = nil
  call('ZREM', HOSTS, visit.name)
end

function show_hosts()
  local entries = {}
  for name, at in pairs(shown) do entries[#entries + 1], entries[#entries + 2] = at, name end
  if #entries > 0 then call('ZADD', HOSTS, unpack(entries)) end
end

-- Whether no lane need be looked at: the host was shown too early.
local function is_early(visit)
  if visit.resting then return false end
  local from = claimable_from(visit.next_time, visit.d)
  if visit.d then from = math.max(from, visit.awaited) end
  if from <= now then
    from = unsent_until(visit.d)
    if from == FOREVER and visit.active > 0 then
      hide(visit)  -- note_sent adds it again, or free_slots
      return true
    end
  end
  if from <= now or from == FOREVER then return false end
  show_again(visit, from)
  return true
end

local function list_lanes(visit)
  -- Lanes that must wait do not hide others: requests of cancelled tasks wait for nothing.
  local most = (visit.resting or visit.rules.robots_wait > now) and MAX_LANES.chosen or MAX_LANES.few
  local listed = call('ZRANGE', LANES(visit.name), 0, most - 1, 'WITHSCORES')
  if #listed == 2 * MAX_LANES.few and most == MAX_LANES.few then
    most = MAX_LANES.more
    listed = call('ZRANGE', LANES(visit.name), 0, most - 1, 'WITHSCORES')
  end
  visit.members, visit.others = in_turn(listed, visit.turn)
  visit.most = most
end

local function hide_lane(visit, member) visit.gone = visit.gone + call('ZREM', LANES(visit.name), member) end

-- A lane that may not go now does not hide others.
local function look_further(visit)
  if #visit.members < visit.most or visit.most == MAX_LANES.chosen then return end
  local rest = call('ZRANGE', LANES(visit.name), visit.most, MAX_LANES.chosen - 1)
  visit.most = MAX_LANES.chosen
  for _, more in ipairs(rest) do visit.members[#visit.members + 1] = more end
end

-- The lane must wait until a time.
local function skip(visit, till)
  look_further(visit)
  visit.skipped, visit.till = visit.skipped + 1, math.min(visit.till, till)
end

-- The lane is of a task that another generation serves, or has no room here.
local function set_apart(visit, holder)
  look_further(visit)
  visit.apart, visit.holders = visit.apart + 1, visit.holders or {}
  visit.holders[holder or ''] = true
end

-- The terms of the gate for this lane, with n: how many of its requests may go now. With proxies, `pair` are the
-- terms of each of them.
local function terms_of(visit, task, lane, n)
  local terms, pool, address = gate.terms(visit, task), visit.pool, visit.address
  visit.obeyed = visit.obeyed or task.robots
  if task.shares and not address and not visit.through then  -- this one only finds out the address
    terms.concurrency, terms.delay, terms.gap = 1, 0, nil
  end
  if pool then
    terms.pair = {delay = terms.delay, adaptive = terms.gap ~= nil, concurrency = terms.concurrency}
    if pool.each then  -- the limits of the host hold for each proxy
      terms.delay, terms.gap, terms.concurrency = 0, nil, terms.unread and 1 or math.huge
    end
  end
  -- The strictest limit so far applies, so that a task with a low limit is never starved.
  visit.limit = math.min(visit.limit, terms.concurrency)
  local room = visit.limit - visit.active - visit.beside - visit.kept
  n = math.min(n, room)
  if address and task.shares then
    if task.ip_concurrency > 0 then
      visit.crowd = visit.crowd > 0 and math.min(visit.crowd, task.ip_concurrency) or task.ip_concurrency
    end
    visit.spacing = math.max(visit.spacing, task.ip_delay)
    n = math.min(n, gate.room_at(address, visit.crowd, visit.spacing))
    if visit.spacing > 0 then terms.at = math.max(terms.at, address.next_time) end
  end
  if terms.delay > 0 then n = math.min(n, 1)
  elseif terms.gap then n = math.min(n, pace_rules().batch_of(terms.gap, visit.next_time, terms.at)) end
  if left < poorer and n > 0 and not task.pin and not pool then
    local due = math.min(room, call('LLEN', LANE(lane)))
    if n >= due then n, visit.kept, left = due - 1, visit.kept + 1, left + 1 end
  end
  terms.n = n
  return terms
end

-- The address of the host has `some` more requests in flight.
local function note_address(visit, terms, some)
  local address = visit.address
  address.active = address.active + some
  if terms and visit.spacing > 0 then
    address.next_time, address.unsent = terms.at + visit.spacing, FOREVER
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
    call('ZADD', LANES(visit.name), 'XX', integer(score), served)
  end
end

-- `some` requests were taken on these terms: when the next may go.
local function note_times(visit, terms, some, empty)
  local delay, gap, at = terms.delay, terms.gap, terms.at
  if gap then
    -- The rate may only grow while it limits the host.
    local bound = pace_rules().held_up(visit.next_time, at, gap) and not empty
    if bound then call('HINCRBY', visit.key, 'w', some)
    elseif visit.limited then call('HDEL', visit.key, 'w') end
    visit.limited = bound
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
  local lane, terms, some, empty = member .. ':' .. visit.name, nil, 0, false
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
  if visit.address and some > 0 then note_address(visit, terms, some) end
  note_turn(visit, member, empty)
  if terms and some > 0 then note_times(visit, terms, some, empty) end
end

local function take_turn(visit, member, quota)
  local id = string.match(member, '^(%d+):%d+$')
  local task = id and task_of(id)
  if not task then
    hide_lane(visit, member)
    call('DEL', LANE(member .. ':' .. visit.name))
    return
  elseif task.state == 'paused' then
    hide_lane(visit, member)
    call('SADD', PAUSED(id), member .. ':' .. visit.name)
    return
  elseif task.pin then
    local served, holder = serves(task)
    if not served then return set_apart(visit, holder) end
  end
  local till = gate.ask(visit, task, math.max(now, visit.next_time))
  if till then skip(visit, till)
  elseif not (task.state == 'running' and visit.waits) then
    take_from(visit, task, member, quota - visit.got)
  end
end

local function save_visit(visit)
  local key = visit.key
  if visit.got > 0 then
    add_slots(visit.name, visit.got, visit.address and visit.address.name)
    if visit.lasts or visit.obeyed or visit.pool then call('PERSIST', key) end  -- it may have been idle
  end
  local set, n = {}, 0
  if visit.turn ~= visit.first_turn then set[1], set[2], n = 't', visit.turn, 2 end
  if visit.waits then set[n + 1], set[n + 2], n = 'n', exact(visit.next_time), n + 2 end
  if visit.unsent then set[n + 1], set[n + 2], n = 'd', visit.unsent, n + 2
  elseif visit.d and visit.got > 0 then call('HDEL', key, 'd') end
  if visit.rules.probation and visit.asked then set[n + 1], set[n + 2], n = 'p', 2, n + 2 end
  if n > 0 then call('HSET', key, unpack(set)) end
  if visit.pool then via.close_pool(visit.pool) end
end

-- All that the host has is of tasks that other generations serve, or for which this one has no room.
local function leave_to_holders(visit, from)
  hide(visit)
  local after = math.max(now, from)
  for holder in pairs(visit.holders) do
    -- A worker without room here is asked again a little later.
    local due = holder == generation and math.max(after, now + LEFT) or after
    call('ZADD', APART(holder), integer(math.ceil(due)), visit.name)
  end
end

-- The host waits for its address.
local function wait_at_address(visit, from)
  local address = visit.address
  address.full = true
  hide(visit)
  local after = math.max(now, from) + (visit.got > 0 and 1 or 0)  -- hosts that got nothing come first
  call('ZADD', WAITING(address.name), integer(math.ceil(after)), visit.name)
  local crowded = visit.crowd > 0 and address.active + address.beside >= visit.crowd
  if address.unsent == FOREVER or crowded and address.active > 0 then
    call('ZREM', HOSTS, naming.entry_of(address.name))  -- free_slots adds it again, or note_sent
  else
    local due = crowded and address.until_then or math.max(address.unsent, address.next_time - AHEAD)
    call('ZADD', HOSTS, integer(math.ceil(due)), naming.entry_of(address.name))
  end
end

-- The host is seen again when it may be asked next.
local function put_back(visit)
  local host, active, lanes_left = visit.name, visit.active, #visit.members - visit.gone
  local from = claimable_from(visit.next_time, visit.d and visit.got == 0)
  if lanes_left == 0 and (visit.gone < visit.most or call('EXISTS', LANES(host)) == 0) then
    hide(visit)
    if active <= 0 then rest_host(host) end
  elseif visit.apart > 0 and visit.apart == lanes_left and not visit.holders[''] then
    leave_to_holders(visit, from)
  elseif visit.skipped > 0 and visit.skipped + visit.apart == lanes_left then
    local till = visit.till
    if visit.through then till = math.min(till, now + via.LOOK_AGAIN) end  -- an order for its host does not wake a place
    show_again(visit, math.max(visit.next_time, till))
  elseif active <= 0 and visit.beside >= visit.limit then
    show_again(visit, visit.until_then)  -- earlier, when one of those fetches is over
  elseif active + visit.beside >= visit.limit or visit.unsent then
    -- free_slots adds it again, or note_sent: a worker may send a request later than it was claimed.
    hide(visit)
  elseif visit.pool and visit.pool.dry and not visit.resting then
    show_again(visit, math.max(from, via.dry_until(visit.pool)))
  elseif visit.address and not visit.resting and (visit.crowd > 0 or visit.spacing > 0)
    and gate.room_at(visit.address, visit.crowd, visit.spacing) <= 0 then
    wait_at_address(visit, from)
  else
    show_again(visit, visit.resting and now or math.max(now, from))
  end
end

-- Takes up to `quota` requests of one host. Every host examined either yields some, or leaves HOSTS,
-- or gets a later time there, or loses lanes, so claim always terminates.
local function take_host(host, quota)
  begin_visit(host)
  if is_early(visit) then return 0 end
  list_lanes(visit)
  for _, member in ipairs(visit.members) do
    if visit.got >= quota then break end  -- to look at the other lanes is to read the task of each
    take_turn(visit, member, quota)
  end
  save_visit(visit)
  put_back(visit)
  return visit.got
end

-- The same for the hosts that wait for an address, by turns.
local MAX_HOSTS = 50  -- of an address that one claim examines

local function take_at(name, quota)
  local address, got = gate.address(name), 0
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
  local address = naming.address_in(entry)
  if address then return take_at(address, quota) end
  return take_host(entry, quota)
end
