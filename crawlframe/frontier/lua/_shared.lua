-- Shared by all verbs; follows the key names of keys.py in every script.

local call = redis.call

local clock, exact_clock

-- Milliseconds; constant throughout a script.
local function now_ms()
  if not clock then
    local time = call('TIME')
    exact_clock = time[1] * 1000 + time[2] / 1000
    clock = math.floor(exact_clock)
  end
  return clock
end

-- The same with its fraction: a time rounded down would let the next request come that much early.
local function exact_now()
  return now_ms() and exact_clock
end

local function integer(n) return string.format('%.0f', n) end

-- A time with its fraction, rounded up to hundredths of a millisecond.
local function exact(ms)
  return ms % 1 > 0 and string.format('%.2f', math.ceil(100 * ms) / 100) or integer(ms)
end

-- The era of the data in this partition: number, and open, doubted or closed.
local function read_era()
  local number, state = string.match(call('GET', ERA) or '0 open', '^(%d+) (%a+)$')
  return number or '0', state or 'doubted'
end

-- The data in this partition is damaged: nothing is claimed until a new era has rebuilt it.
local function doubt()
  local number, state = read_era()
  if state == 'open' then call('SET', ERA, number .. ' doubted') end
end

-- Tasks: read once per script, written back once by save_tasks() -----------------------------------
local FIELDS = {'na', 'nf', 'ne', 'duplicates', 'limited', 'inprogress', 'delayed', 'parked',
  'items', 'cancelled', 'excluded', 'level', 'split', 'seen', 'state', 'delay', 'concurrency', 'limit',
  'cookies', 'auto', 'robots', 'host_limit', 'ip_concurrency', 'ip_delay', 'pin', 'layer', 'led', 'gates'}
local COUNTERS = 14  -- the first fields are numbers that verbs change
local tasks = {}

local function task_of(id)
  local task = tasks[id]
  if task then return task end
  local values = call('HMGET', TASK(id), unpack(FIELDS))
  if not values[1] then return nil end
  task = {id = id, dirty = false}
  for i, field in ipairs(FIELDS) do task[field] = values[i] end
  for i = 1, COUNTERS do task[FIELDS[i]] = tonumber(values[i]) or 0 end
  task.delay = tonumber(task.delay) or 0
  task.concurrency = math.max(1, tonumber(task.concurrency) or 1)
  task.limit = tonumber(task.limit) or 0
  task.auto, task.robots = task.auto == '1', task.robots == '1'
  task.host_limit = tonumber(task.host_limit) or 0
  task.host_limited = 0  -- since the task was read: few tasks have that limit
  task.ip_concurrency, task.ip_delay = tonumber(task.ip_concurrency) or 0, tonumber(task.ip_delay) or 0
  task.shares = task.ip_concurrency > 0 or task.ip_delay > 0
  task.layer = tonumber(task.layer)  -- nil: it is not crawled in layers
  task.size = 2 ^ task.level
  task.buckets = SEEN(id .. ':')
  tasks[id] = task
  return task
end

local function count(task, field, n)
  task[field] = task[field] + n
  task.dirty = true
end

local function save_tasks()
  for id, task in pairs(tasks) do
    if task.dirty then
      local pairs_ = {}
      for i = 1, COUNTERS do
        pairs_[#pairs_ + 1] = FIELDS[i]
        pairs_[#pairs_ + 1] = integer(task[FIELDS[i]])
      end
      call('HSET', TASK(id), unpack(pairs_))
      if task.host_limited > 0 then call('HINCRBY', TASK(id), 'host_limited', task.host_limited) end
      task.host_limited = 0
      task.dirty = false
    end
  end
end

-- Lanes -------------------------------------------------------------------------------------------
local TURNS = 1048576  -- lanes of equal rank take turns; the turn is the low part of the score

local function split_lane(lane)
  local task, rank, host = string.match(lane or '', '^(%d+):(%d+):(.*)$')
  return task, rank, host
end

-- A host with a delay is claimed this long before its next time (ms), so that the way to the worker does
-- not add to the delay. The worker gets to know the time, and does not send the request before.
local AHEAD = 50

-- From when on claim may look at a host or an address. d: see Addresses.
local function claimable_from(next_time, d)
  return d and next_time - AHEAD or next_time
end

-- Holds of a host are kept with it: a rest after refusals, an operator's pause. `x` says that there
-- is one.
local FOREVER = 8640000000000000  -- ms: a time that never comes

-- When rest and pause of a host are over (ms); it may be past.
local function held_until(host)
  local state = call('HMGET', HOST(host), 'r', 'op', 'ou')
  local rest = tonumber(state[1]) or 0
  return state[2] and math.max(rest, tonumber(state[3]) or FOREVER) or rest
end

-- Hosts take turns: a host that comes back queues behind waiting hosts. A host that waits longer than it
-- must, as the gate keeps requests of another task back, comes earlier.
local function show_host(host, next_time)
  call('ZADD', HOSTS, 'LT', integer(math.ceil(math.max(tonumber(next_time) or 0, now_ms()))), host)
end

-- Layers: a task that is crawled in layers shows no requests that are deeper than its layer. Of these,
-- `beyond` of the task counts all, and `w<depth>` the requests of one depth. Once it is cancelled, they are no
-- longer kept back, and not counted.
local layers = {DEPTHS = 4096}  -- ranks of one priority, as in request.py. One table: a script may have 200 locals

function layers.is_beyond(task, depth)
  return task ~= nil and task.layer ~= nil and depth > task.layer and task.state ~= 'cancelling'
end

function layers.count_beyond(task, depth, n)
  call('HINCRBY', TASK(task.id), 'beyond', n)
  call('HINCRBY', TASK(task.id), 'w' .. integer(depth), n)
end

-- A lane whose list was empty becomes visible to claim, which hides the lane of a paused task again; one
-- of a later layer waits for it.
local function show_lane(lane)
  local task, rank, host = split_lane(lane)
  local depth = rank % layers.DEPTHS
  if depth > 0 and layers.is_beyond(task_of(task), depth) then
    call('ZADD', DEEP(task), integer(depth), lane)
    return
  end
  local state = call('HMGET', HOST(host), 't', 'n', 'x', 'd')
  local score = rank * TURNS + (tonumber(state[1]) or 0) % TURNS
  call('ZADD', LANES(host), 'NX', integer(score), task .. ':' .. rank)
  local from = claimable_from(tonumber(state[2]) or 0, state[4])
  if state[3] then from = math.max(from, held_until(host)) end
  -- Requests of a task that is being cancelled are ended without a fetch, so they wait for nothing.
  local owner = task_of(task)
  show_host(host, owner and owner.state == 'cancelling' and 0 or from)
end

-- The last request of a task is delayed this long, in a lane of its own. Only last.lua releases it.
local HELD = 4398046511104  -- ms, as in request.py

local function is_last(lane)
  return lane ~= nil and string.match(lane, '^%d+:%d+:/%d+/end$') ~= nil
end

local function append(lists, key, value)
  if key == nil then return end
  local list = lists[key]
  if list then list[#list + 1] = value else lists[key] = {value} end
end

-- queues: lane -> list of rids, in order of arrival. They go to the end of their lanes, or to the
-- head if they are given back.
local function enqueue(queues, to_head)
  for lane, rids in pairs(queues) do
    local length
    if to_head then
      local reversed = {}
      for i = #rids, 1, -1 do reversed[#reversed + 1] = rids[i] end
      length = call('LPUSH', LANE(lane), unpack(reversed))
    else
      length = call('RPUSH', LANE(lane), unpack(rids))
    end
    if length == #rids then show_lane(lane) end
  end
end

-- Owners ------------------------------------------------------------------------------------------
-- Splits "<holder><hold>|<lane>" into holder, lane, hold. The hold of a request in progress is
-- ".<number of its claim>", with "~<id>" of a proxy of the pool that it goes through, while it has a slot
-- of its host, "+<number>" when the fetch is over and the slot given back. Returns nothing when `own` cannot be read.
local function split_own(own)
  local holder, hold, lane = string.match(own or '', '^(%w*)([^|]*)|(.*)$')
  return holder, lane, hold
end

-- Whether this claim of the generation holds the request. A repetition may find that a later one does.
local function holds(generation, claim, own)
  local holder, _, hold = split_own(own)
  return holder == generation and naming.claim_in(hold) == claim
end

-- n more requests in progress at a host or an address. Returns how many there are; damage counts as none.
local function add_active(key, n)
  local active = redis.pcall('HINCRBY', key, 'a', n)
  if type(active) ~= 'number' or active < 0 then
    active = math.max(0, n)
    call('HSET', key, 'a', active)
  end
  return active
end

-- Addresses: hosts at one IP address share its limits, for tasks that have some. `ip` of a host is the
-- address at which its fetches are counted. A host that its address holds up waits in WAITING, and not
-- in HOSTS: there, one entry "@<address>" stands for all of them, while the address has a slot. `d` of a
-- host or an address is "<delay> <rid>" of its last request while that may not have been sent yet, and
-- "<delay>" when it was. Of a fetch outside of the queue, it is "<delay>~<end of its permit (ms)> <token>".
local PLACED_FOR = 600000  -- ms for which the address of a host without requests is kept
local placing  -- whether any host is counted at an address

-- Without PLACED, an `ip` was left by an earlier era.
local function address_of(host)
  if placing == nil then placing = call('EXISTS', PLACED) == 1 end
  return placing and call('HGET', HOST(host), 'ip') or nil
end

-- No request of an address is in flight: its next time and its permits are kept as long as they matter.
local function rest_address(key)
  local state = call('HMGET', key, 'n', 'v')
  local keep = math.max(tonumber(state[1]) or 0, tonumber(state[2]) or 0)
  if keep > now_ms() then call('PEXPIREAT', key, integer(math.ceil(keep))) else call('DEL', key) end
end

local function count_at(address, n)
  if n == 0 then return end
  local key = ADDRESS(address)
  local active = add_active(key, n)
  if active <= 0 then rest_address(key)
  elseif active == n then call('PERSIST', key) end
end

local taken = {}  -- rids that this claim returns; their owners are not written yet

-- Until when the request in `d` may be unsent (ms): FOREVER while it has its slot, and 0 if it was sent.
local function unsent_until(d)
  local ends, rid = string.match(d or '', '^[%d.]+~?(%d*) (.+)$')
  if not rid then return 0 end
  if ends ~= '' then return tonumber(ends) > now_ms() and tonumber(ends) or 0 end
  if taken[rid] then return FOREVER end
  local holder, _, hold = split_own(call('HGET', OWN, rid) or nil)
  return holder ~= nil and holder ~= 'd' and holder ~= 'p' and naming.has_slot(hold) and FOREVER or 0
end

-- The last request of this host or address was sent so many ms ago: the delay counts from then. Negative:
-- it is not sent, and spends no time of the host.
-- rid: of the request that was sent, or token of the fetch; without it, any. Returns whether that is new.
local function delay_from(key, ago, rid)
  local state = call('HMGET', key, 'n', 'd')
  local delay, last = string.match(state[2] or '', '^([%d.]+)~?%d* (.+)$')
  if not last or rid and last ~= rid then return false end
  call('HSET', key, 'd', delay)
  ago = tonumber(ago)
  if ago < 0 then  -- the delay after the request before holds
    call('HSET', key, 'n', exact(math.max(exact_now(), (tonumber(state[1]) or 0) - tonumber(delay))))
    return true
  end
  local next_time = exact_now() - ago + tonumber(delay)
  if next_time > (tonumber(state[1]) or 0) then call('HSET', key, 'n', exact(next_time)) end
  return true
end

-- The last request of this host or address has left, and no report says when it was sent: a worker's word
-- on that may come after the completion.
local function delay_if_untold(key)
  local d = call('HGET', key, 'd')
  if d and unsent_until(d) == 0 then delay_from(key, 0) end
end

-- Claim sees the hosts that wait for an address when the first of them may be asked.
local function show_address(address)
  local first = call('ZRANGE', WAITING(address), 0, 0, 'WITHSCORES')
  local state = call('HMGET', ADDRESS(address), 'n', 'd')
  local till = unsent_until(state[2])
  if not first[2] or till == FOREVER then return call('ZREM', HOSTS, naming.entry_of(address)) end
  local due = math.max(tonumber(first[2]), (tonumber(state[1]) or 0) - AHEAD, till, now_ms())
  call('ZADD', HOSTS, integer(math.ceil(due)), naming.entry_of(address))
end

-- Host slots: `a` of a host counts the requests in progress whose fetch is not over ----------------
local REMEMBERED = 86400000  -- ms for which the learned state of a host without requests is kept
local PAIR_REMEMBERED = 3600000  -- the same for the rate of a host through one proxy: there are many of these

-- No request of the host waits or is in flight: state that matters later is kept as long as it does.
local function rest_host(host)
  local state = call('HMGET', HOST(host), 'n', 'x', 'ro', 'g', 'b', 'ip', 'v', 'l', 'px')
  local keep = math.max(tonumber(state[1]) or 0, tonumber(state[7]) or 0)
  if state[6] then keep = math.max(keep, now_ms() + PLACED_FOR) end
  if state[2] or state[3] or state[4] or state[5] or state[8] or state[9] then
    local rate_only = not (state[2] or state[3] or state[5] or state[8] or state[9])
    local pair = rate_only and naming.split_pair(host)
    keep = math.max(keep, now_ms()) + (pair and PAIR_REMEMBERED or REMEMBERED)
    if state[2] then
      local orders = call('HMGET', HOST(host), 'ou', 'od', 'oc', 'op', 'og')
      if not orders[1] and (orders[2] or orders[3] or orders[4] or orders[5]) then return call('PERSIST', HOST(host)) end
      keep = math.max(keep, held_until(host) + REMEMBERED, tonumber(orders[1]) or 0)
    end
  end
  if keep > now_ms() then call('PEXPIREAT', HOST(host), integer(math.ceil(keep)))
  else call('DEL', HOST(host)) end
end

-- From when on claim may look at the host (ms).
local function next_of(host)
  local state = call('HMGET', HOST(host), 'n', 'x', 'd')
  local from = claimable_from(tonumber(state[1]) or 0, state[3])
  return state[2] and math.max(from, held_until(host)) or from
end

-- All hosts that only one generation saw are seen by all again.
local function rejoin(generation)
  if call('EXISTS', APART(generation)) == 0 then return end
  call('ZUNIONSTORE', HOSTS, 2, HOSTS, APART(generation), 'AGGREGATE', 'MIN')
  call('DEL', APART(generation))
end

-- A host that has requests: claim sees it when it may be asked next, and no later.
local function bring_back(host)
  local next_time = next_of(host)
  local stands = tonumber(call('ZSCORE', HOSTS, host))
  if stands and math.max(stands, next_time) <= now_ms() then return end  -- it keeps its turn
  call('ZADD', HOSTS, integer(math.ceil(math.max(next_time, now_ms()))), host)
end

-- Lists the host among the hosts that an operator should know of, or removes it.
local function mark_held(host)
  local state = call('HMGET', HOST(host), 'r', 'why', 'op', 'ou')
  local till = state[3] and (tonumber(state[4]) or FOREVER) or 0
  if state[2] == 'asked' or state[2] == 'blocked' then
    till = math.max(till, tonumber(state[1]) or 0)
  end
  if till > 0 then call('ZADD', HELD_HOSTS, integer(till), host)
  else call('ZREM', HELD_HOSTS, host) end
end

-- The next time of a host follows from an earlier, longer delay.
local function advance_host(host, delay)
  local state = call('HMGET', HOST(host), 'n', 'rd')
  local latest = now_ms() + math.max(delay, tonumber(state[2]) or 0)
  if (tonumber(state[1]) or 0) > latest then call('HSET', HOST(host), 'n', integer(latest)) end
end

-- A host whose rest, order or limits have changed.
local function reconsider(host)
  if call('EXISTS', LANES(host)) == 1 then
    bring_back(host)
    call('PERSIST', HOST(host))
  elseif (tonumber(call('HGET', HOST(host), 'a')) or 0) <= 0 then rest_host(host) end
end

local function add_slots(host, n, address)
  if address then count_at(address, n) end
  return add_active(HOST(host), n)
end

local note_signal  -- set by _signals.lua, for the verbs that are told of signals

local left_pairs, free_pairs, hear_proxy = {}  -- {place, proxy}: slots given back, for _proxies.lua

local left_by = {}  -- generation -> rids that leave() removed from it

-- freed: host -> number of slots given back. Must follow every use of leave() on held requests.
local function free_slots(freed)
  for holder, rids in pairs(left_by) do call('SREM', INPROGRESS(holder), unpack(rids)) end
  left_by = {}
  if #left_pairs > 0 then free_pairs() end
  local addresses = {}
  for host, n in pairs(freed) do
    local address = address_of(host)
    if address then
      addresses[address] = true
      delay_if_untold(ADDRESS(address))  -- before its last slot is freed, with which it may be forgotten
    end
    delay_if_untold(HOST(host))
    local active = add_slots(host, -n, address)
    local held_up = address and call('ZSCORE', WAITING(address), host)
    if not held_up and not call('ZSCORE', HOSTS, host) then
      if call('EXISTS', LANES(host)) == 1 then show_host(host, next_of(host))
      elseif active <= 0 then rest_host(host) end
    end
  end
  for address in pairs(addresses) do show_address(address) end
end

-- Tries -------------------------------------------------------------------------------------------
-- <attempts>,<deliveries>[,<tried>]; tried: the marks of the code versions that could not run the
-- request, oldest first, joined by dots.
local function tries_of(rid)
  local tries = call('HGET', TRIES, rid)
  if not tries then return 0, 0, '' end
  local attempts, deliveries, tried = string.match(tries, '^(%d+),(%d+),?([%x.]*)$')
  return tonumber(attempts) or 0, tonumber(deliveries) or 0, tried or ''
end

local function set_tries(rid, attempts, deliveries, tried)
  if attempts + deliveries > 0 or tried ~= '' then
    call('HSET', TRIES, rid, attempts .. ',' .. deliveries .. (tried ~= '' and ',' .. tried or ''))
  else call('HDEL', TRIES, rid) end
end

local function add_tries(rid, attempts, deliveries)
  local a, d, tried = tries_of(rid)
  set_tries(rid, a + attempts, d + deliveries, tried)
end

-- A kill is a delivery as well, so whatever has kills has tries.
local function add_kill(rid)
  add_tries(rid, 0, 1)
  local kills = tonumber(call('HGET', KILLS, rid)) or 0
  call('HSET', KILLS, rid, integer(kills + 1))
end

-- For requests that are over.
local function forget_tries(rids)
  call('HDEL', TRIES, unpack(rids))
  if call('EXISTS', KILLS) == 1 then call('HDEL', KILLS, unpack(rids)) end
  if call('EXISTS', REFUSALS) == 1 then call('HDEL', REFUSALS, unpack(rids)) end
end

-- Parked requests by group (<task>:<tried>), so that a version skips all those it has tried at once.
local function strand(group, rids)
  local id, tried = string.match(group, '^(%d+):(.+)$')
  call('SADD', PARKED_BY_TRIED(group), unpack(rids))
  call('SADD', TASKS_BY_TRIED(tried), id)
  call('SADD', TRIED_VERSIONS, tried)
end

local function unstrand(group, rids)
  if #rids > 0 then call('SREM', PARKED_BY_TRIED(group), unpack(rids)) end
  if call('EXISTS', PARKED_BY_TRIED(group)) == 1 then return end
  local id, tried = string.match(group, '^(%d+):(.+)$')
  call('SREM', TASKS_BY_TRIED(tried), id)
  if call('EXISTS', TASKS_BY_TRIED(tried)) == 0 then call('SREM', TRIED_VERSIONS, tried) end
end

-- Removes rid from where `own` says it is. Returns the lane. The caller removes or rewrites OWN, and
-- passes `groups` to leave_groups() where rid may be parked. kind, ms: the signal of its fetch, which
-- is noted if the slot is freed here, and address where it connected. Returns nothing when `own` is unreadable.
local function leave(rid, own, freed, groups, kind, ms, address)
  local holder, lane, hold = split_own(own)
  local id, _, host = split_lane(lane)
  local task = id and task_of(id)
  if not task then
    if holder and holder ~= 'd' and holder ~= 'p' then append(left_by, holder, rid) end
    return doubt()
  end
  if holder == 'd' then
    call('ZREM', DELAYED, rid)
    count(task, 'delayed', -1)
  elseif holder == 'p' then
    call('HDEL', PARKED(id), rid)
    count(task, 'parked', -1)
    local _, _, tried = tries_of(rid)
    if tried ~= '' then append(groups, id .. ':' .. tried, rid) end
  else
    append(left_by, holder, rid)
    count(task, 'inprogress', -1)
    if naming.has_slot(hold) then
      freed[host] = (freed[host] or 0) + 1
      local proxy = naming.split_hold(hold or '')
      if proxy then left_pairs[#left_pairs + 1] = {host, proxy} end
      if kind then note_signal(id, host, kind, ms, address, proxy, rid) end
    end
  end
  return lane
end

local function leave_groups(groups)
  for group, rids in pairs(groups) do unstrand(group, rids) end
end

-- Seen fingerprints: integer sets in buckets, split one by one as they fill (linear hashing: Litwin,
-- VLDB 1980), so that every bucket stays below set-max-intset-entries (512) and costs 8 bytes an entry.
local FILL = 220

-- Must match the hash that records.py sends with a fingerprint.
local function hash_of(fingerprint)
  local hash = tonumber(string.sub(fingerprint, -9))
  return hash < 0 and -hash or hash
end

-- The key of the bucket for a fingerprint of this hash. %d, because concatenating a number directly
-- is slow: it is formatted as a fraction.
local function bucket_of(task, hash)
  local bucket = hash % task.size
  if bucket < task.split then bucket = hash % (2 * task.size) end
  return task.buckets .. string.format('%d', bucket)
end

local function split_bucket(task)
  local old, new = task.split, task.split + task.size
  local moved = {}
  for _, fingerprint in ipairs(call('SMEMBERS', task.buckets .. old)) do
    if hash_of(fingerprint) % (2 * task.size) ~= old then moved[#moved + 1] = fingerprint end
  end
  if #moved > 0 then
    call('SREM', task.buckets .. old, unpack(moved))
    call('SADD', task.buckets .. new, unpack(moved))
  end
  task.split = task.split + 1
  if task.split == task.size then
    task.level, task.size, task.split = task.level + 1, 2 * task.size, 0
  end
end

-- Returns whether the fingerprint is new, and marks it as seen.
local function mark_seen(task, fingerprint, hash)
  if call('SADD', bucket_of(task, hash), fingerprint) == 0 then return false end
  task.seen, task.dirty = task.seen + 1, true
  if task.seen > FILL * (task.size + task.split) then split_bucket(task) end
  return true
end

-- Admission. Requests come in groups {<rank>:<host>, delay ms, {rid, fingerprint, hash, record, ...}}.
-- Requests of a task that is being cancelled end when they are admitted, except its last request.
local entering, bodies = {}, {}  -- requests that admit() accepted, by lane and with records, for enter()

local function take_in(task, lane, delay, rid, record)
  bodies[#bodies + 1] = rid
  bodies[#bodies + 1] = record
  if delay > 0 then
    call('ZADD', DELAYED, integer(now_ms() + delay), rid)
    call('HSET', OWN, rid, 'd|' .. lane)
    count(task, 'delayed', 1)
  else
    append(entering, lane, rid)
  end
end

-- Why a new request to this host would be refused now: the counter of such requests.
local function limit_of(task, host)
  if task.limit > 0 and task.na >= task.limit then return 'limited' end
  if host and (tonumber(call('HGET', HOST_PAGES(task.id), host)) or 0) >= task.host_limit then
    return 'host_limited'
  end
end

local function admit(task, groups)
  for _, group in ipairs(groups) do
    local lane, delay, flat = task.id .. ':' .. group[1], group[2], group[3]
    local host = task.host_limit > 0 and string.match(group[1], '^%d+:([^|]*)')
    local bounded = host or task.limit > 0
    local depth = task.layer and string.match(group[1], '^%d+') % layers.DEPTHS or 0
    local before = task.na
    for i = 1, #flat, 4 do
      local rid, fingerprint, hash = flat[i], flat[i + 1], flat[i + 2]
      local limit = bounded and limit_of(task, host)
      if limit then
        local seen = call('SISMEMBER', bucket_of(task, hash), fingerprint) == 1
        count(task, seen and 'duplicates' or limit, 1)
      elseif mark_seen(task, fingerprint, hash) then
        count(task, 'na', 1)
        if host then call('HINCRBY', HOST_PAGES(task.id), host, 1) end
        if task.state == 'cancelling' and delay < HELD then
          count(task, 'ne', 1)
          count(task, 'cancelled', 1)
        else
          -- The target of a redirect, while it is fetched: that request will probably end this one.
          local wait = task.led and math.max(delay, call('PTTL', RESERVED(rid))) or delay
          take_in(task, lane, wait, rid, flat[i + 3])
        end
      else
        count(task, 'duplicates', 1)
      end
    end
    if task.na > before and layers.is_beyond(task, depth) then
      layers.count_beyond(task, depth, task.na - before)
    end
  end
end

local function enter()
  if #bodies > 0 then call('HSET', REQ, unpack(bodies)) end
  enqueue(entering)
  entering, bodies = {}, {}
end
