-- Gate: whether a request of a task may go to a host now, and if not, until when and why in one word. It is
-- asked by claim, permit, hosts and waits; no other script decides why a host or a task waits. It writes nothing.
-- Times are ms, by the clock of Redis. Further rules have a file each in the folder gates.
do  -- a script may have 200 locals at a time
local now = now_ms()
local FIRST_GAP = 1000  -- of a host with an adaptive rate that has not answered yet; as FIRST_RATE in _pace.lua
local FREE = {rest = 0, paused = 0, robots_delay = 0, robots_wait = 0}  -- of a host that nothing holds

-- Rules for a host, or the host of a place, beyond the limits of its tasks. held: its own `x`, without which it
-- does not rest. `ended`: an order is over; `empty`: no field is left that `x` stands for.
local function rules_of(name, site, held)
  local own = held and call('HMGET', HOST(name), 'r', 'why', 'p') or {}
  local said = call('HMGET', HOST(site), 'x', 'rd', 'rw', 'od', 'oc', 'op', 'ou', 'og')
  if not held and not said[1] then return FREE end
  local ends, ended = tonumber(said[7] or nil), false
  if ends and ends <= now then
    said[4], said[5], said[6], said[8], ended = false, false, false, false, true
  end
  local some = own[1] or own[3] or said[2] or said[3] or said[4] or said[5] or said[6] or said[8]
  return {
    rest = tonumber(own[1]) or 0, why = own[2], probation = own[3],
    robots_delay = tonumber(said[2]) or 0, robots_wait = tonumber(said[3]) or 0,
    delay = tonumber(said[4] or nil), concurrency = tonumber(said[5] or nil), paused = said[6] and (ends or FOREVER) or 0,
    gates = said[8] or nil, ended = ended, empty = not some,
  }
end

-- Slots of a host, or of "@<address>", that fetches outside of the queue have, or wait for, when the first of them
-- lapses, whether there are any permits, and until when the next time is kept for one that waits (0: it is not).
-- token: of a fetch that is not counted; it waits for no other that waits.
local function count_permits(name, token)
  local n, first, awaited, permits = 0, FOREVER, 0, call('HGETALL', PERMITS(name))
  for i = 1, #permits, 2 do
    local kind, ends = string.match(permits[i + 1], '^(%a) %d+ (%d+)$')
    ends = tonumber(ends) or 0
    local slot = kind == 'g' or kind == 'w'
    local counts = not token and slot or token and kind == 'g' and permits[i] ~= token
    if counts and ends > now then n, first = n + 1, math.min(first, ends) end
    if kind == 'w' or kind == 't' then awaited = math.max(awaited, ends) end
  end
  return n, first, #permits > 0, awaited
end

local addresses = {}  -- of this script; claim says with `full` that one of them held a host up

-- Its taken slots, the slots of fetches outside the queue, and its next time.
function gate.address(name, token)
  local address = addresses[name]
  if not address then
    local state = call('HMGET', ADDRESS(name), 'a', 'n', 'd', 'v')
    address = {name = name, active = math.max(0, tonumber(state[1]) or 0), next_time = tonumber(state[2]) or 0,
      d = state[3], unsent = unsent_until(state[3]), beside = 0, until_then = 0}
    if state[4] then
      local _, awaited
      address.beside, address.until_then, _, awaited = count_permits(naming.entry_of(name), token)
      if not token then address.unsent = math.max(address.unsent, awaited) end
    end
    addresses[name] = address
  end
  return address
end

-- How many more requests may go to the address.
function gate.room_at(address, concurrency, delay)
  if delay > 0 and math.max(address.unsent, address.next_time - AHEAD) > now then return 0 end
  local room = concurrency > 0 and concurrency - address.active - address.beside or math.huge
  return delay > 0 and math.min(room, 1) or room
end

-- A host, a place or a pair as it is kept. token: as in count_permits. host: a table that is used again for it.
function gate.open(name, token, host)
  local key = HOST(name)
  local state = call('HMGET', key, 'a', 'n', 't', 'x', 'ip', 'd', 'v', 'ro', 'g', 'w')
  host = host or {}
  host.key = key
  host.name, host.site, host.through = name, name, not naming.is_host(name)  -- through proxies
  host.active, host.next_time = math.max(0, tonumber(state[1]) or 0), tonumber(state[2]) or 0
  host.turn, host.d, host.lasts = tonumber(state[3]) or 0, state[6], state[2] or state[4]
  host.beside, host.until_then, host.awaited = 0, 0, 0
  host.robots_known, host.gap, host.limited = state[8], state[9], state[10]
  if host.through then
    host.site = naming.host_in(name)
    host.robots_known = call('HGET', HOST(host.site), 'ro')
  end
  host.rules = (state[4] or host.through) and rules_of(name, host.site, state[4]) or FREE
  local some = true
  if state[7] then host.beside, host.until_then, some, host.awaited = count_permits(name, token) end
  host.deserted = not some
  local place = state[5] and address_of(name)
  host.address = place and gate.address(place, token)
  return host
end

-- Whether the host itself keeps all requests of running tasks back.
function gate.is_resting(host)
  return host.rules ~= FREE and (host.rules.rest > now or host.rules.paused > now)
end

local function knows_robots(host) return (tonumber(host.robots_known) or 0) > now end

-- Returns further(host, task, at). It is only called where a task or a host has such a rule.
local function define_further()
  local RULES = gate.define_rules()
  local PASSES = 100  -- after which the gate is asked again at the time found so far
  local read = {}  -- text -> {name -> numbers}

  local function values_in(text)
    if not text then return {} end
    if not read[text] then
      local values = {}
      for name, list in string.gmatch(text, '([%a_]+)=([^;]*)') do
        values[name] = {}
        for number in string.gmatch(list, '-?%d+') do values[name][#values[name] + 1] = tonumber(number) end
      end
      read[text] = values
    end
    return read[text]
  end

  -- Until when further rules close the host from `at` on, and the last of them; nil: they do not. An order stands in
  -- place of the setting of a task. Of a host "/..." nothing is fetched.
  return function(host, task, at)
    if string.sub(host.name, 1, 1) == '/' then return nil end
    local ordered, own, till, why = values_in(host.rules.gates), values_in(task.gates), at, nil
    for _ = 1, PASSES do  -- a later time may be one at which another rule closes the host
      local before = till
      for name, opens in pairs(RULES) do
        local value = ordered[name] or own[name]
        local from = value and opens(value, till) or till
        if from > till then till, why = from, name end
      end
      if till == before then break end
    end
    if why then return till, why end
  end
end

local further

-- Returns until when requests of a task may not go to a host (FOREVER: until an operator acts) and why; nil: they may.
-- Requests of a task that is being cancelled never wait. at: when they would go.
function gate.ask(host, task, at)
  local rules, till, why = host.rules, now, nil
  if rules == FREE and not task.gates or task.state == 'cancelling' then return nil end
  if rules.rest > till then till, why = rules.rest, rules.why or 'refused' end
  if rules.paused > now and rules.paused >= till then till, why = rules.paused, 'paused' end
  if task.robots and rules.robots_wait > till then
    till, why = rules.robots_wait, knows_robots(host) and 'delay' or 'robots'
  end
  if (rules.gates or task.gates) and till < FOREVER then
    further = further or define_further()
    local opens, word = further(host, task, math.max(till, at or till))
    if opens then till, why = opens, word end
  end
  if why then return till, why end
end

-- On which terms requests of a running task go to a host that is open: at (when), delay and concurrency, gap (nil: the
-- rate is not adaptive), and whether this request brings the robots.txt. They are valid until it is called again.
local terms = {}
function gate.terms(host, task)
  local rules = host.rules
  terms.at, terms.delay = math.max(now, host.next_time), rules.delay or task.delay
  terms.concurrency, terms.unread = rules.concurrency or task.concurrency, false
  terms.gap, terms.pair = nil, nil
  if task.robots then
    terms.delay = math.max(terms.delay, rules.robots_delay)
    terms.unread = task.id ~= nil and not knows_robots(host)
  end
  if terms.unread or rules.probation then terms.concurrency = 1 end
  -- An order's delay replaces the adaptive rate.
  if task.auto and not rules.delay then terms.gap = tonumber(host.gap) or FIRST_GAP end
  return terms
end

-- As ask, for one more request, which waits for the delay of the host, too.
function gate.wait(host, task)
  local till, why = gate.ask(host, task, math.max(now, host.next_time))
  if till then return till, why end
  if task.state ~= 'cancelling' and host.next_time > now then return host.next_time, 'delay' end
end

gate.FIRST_GAP, gate.count_permits = FIRST_GAP, count_permits
end
