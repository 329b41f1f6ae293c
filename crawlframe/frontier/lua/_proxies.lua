-- Proxies. A request that goes through proxies waits at a place "<host>|<route>", which claim
-- treats as a host. The route is the URL of one proxy, or names proxies of the pool: "[all;]pool[:<terms>][#<session>]".
-- With "all;" the limits of the place hold over all its proxies, else for each of them.
-- A pair is a host and a proxy of the pool, "<host>|<id>": a HOST with its own next time, slots, rate and rests.
-- BUSY is only an index of pairs that may not be used now; the pairs themselves are authoritative.
local via = {PROXY_FAILED = 7, LOGIN = 2}  -- kind of a signal and its ms: the proxy itself has failed; as in records.py
do  -- a script may have 200 locals at a time
via.MAX_FAILURES = 3  -- of a proxy in a row, after which it is out
local PROXY_FAILED, LOGIN = via.PROXY_FAILED, via.LOGIN
via.MOST_USED = 1000  -- proxies whose use is kept for one host
via.TIER = 4294967296  -- in a ring: score = tier * TIER + id

local MARGIN, IN_FLIGHT = 60000, 600000  -- ms for which BUSY is kept; lost entries are found in the pairs

local function show_place(place, from)
  if call('EXISTS', LANES(place)) == 0 then return end
  call('ZADD', HOSTS, 'LT', integer(math.ceil(math.max(from, now_ms()))), place)
end

function via.mark_busy(host, proxy, from)
  call('ZADD', BUSY(host), integer(math.ceil(from)), proxy)
  local keep = from < FOREVER and math.ceil(from - now_ms()) + MARGIN or IN_FLIGHT
  if keep > call('PTTL', BUSY(host)) then call('PEXPIRE', BUSY(host), integer(keep)) end
end

-- The state of a pair has changed: claim sees from when on it may be used.
function via.settle_pair(place, proxy)
  local host = naming.host_in(place)
  local state = call('HMGET', HOST(naming.pair(host, proxy)), 'n', 'd', 'r')
  local due = claimable_from(tonumber(state[1]) or 0, state[2])
  local from = math.max(due, tonumber(state[3]) or 0, unsent_until(state[2]))
  if from <= now_ms() then call('ZREM', BUSY(host), proxy) else via.mark_busy(host, proxy, from) end
  if (tonumber(state[3]) or 0) > now_ms() then from = now_ms() end  -- others may take its turn
  if from < FOREVER then show_place(place, from) end
end

-- The same for the pairs of a place as advance_host does for a host; for some of them, if there are many.
function via.advance_pairs(place, delay)
  local host = naming.host_in(place)
  for _, proxy in ipairs(call('ZRANGE', BUSY(host), 0, 999)) do
    local pair = naming.pair(host, proxy)
    advance_host(pair, math.max(delay, tonumber(call('HGET', HOST(pair), 'g')) or 0))
    via.settle_pair(place, proxy)
  end
end

-- A place that found all its proxies at their limits over all hosts is asked when one has a free slot.
local function wake_stalled(n)
  for _, place in ipairs(call('ZRANGE', STALLED, 0, n - 1)) do
    call('ZREM', STALLED, place)
    show_place(place, 0)
  end
end

local FIRST_TRIAL, MOST_TRIAL = 600000, 86400000  -- ms after which a cheaper tier is tried again
local TIER_BLOCKS = 3  -- blocks in a row after which a place uses the next tier

function free_pairs()
  for _, left in ipairs(left_pairs) do
    local place, proxy = unpack(left)
    local pair = naming.pair(place, proxy)
    delay_if_untold(HOST(pair))
    local active = add_active(HOST(pair), -1)
    via.settle_pair(place, proxy)
    if add_active(PROXY(proxy), -1) <= 0 and call('HEXISTS', POOL, proxy) == 0 then call('DEL', PROXY(proxy)) end
    wake_stalled(1)
    if active <= 0 then rest_host(pair) end
  end
  left_pairs = {}
end

-- The proxy fails: it is out in this partition, until the pool is published with another life of it.
-- why: ms of the signal; 0: the host may be the reason.
local function fail_proxy(proxy, host, why)
  local key = PROXY(proxy)
  if call('HEXISTS', POOL, proxy) == 0 then return end
  if why == 0 then
    -- A host that cannot be reached is not the fault of each proxy that tries it.
    if call('HGET', key, 'fh') == host then return end
    call('HSET', key, 'fh', host)
  end
  if why == LOGIN then call('HSET', key, 'lo', 1) else call('HDEL', key, 'lo') end  -- until it answers
  if call('HINCRBY', key, 'f', 1) >= via.MAX_FAILURES then
    call('SADD', OUT, proxy)
    call('DEL', RINGS)  -- they are built again without it
  end
end

function via.trial_after(tries) return math.min(MOST_TRIAL, FIRST_TRIAL * 2 ^ math.min(20, tries)) end

-- For the admin only: the uses of a pair, also when nothing holds it up.
local ROUTINE = {[1] = true, [6] = true}  -- kinds of signals that are no error

-- Keeps the uses of the last day, and of these the newer half if there are still too many.
local function forget_uses(host)
  local flat, uses, old = call('HGETALL', USED(host)), {}, now_ms() - REMEMBERED
  for i = 1, #flat, 2 do
    local at = tonumber(string.match(flat[i + 1], '^(%d+) '))
    if at then uses[#uses + 1] = {flat[i], at} end
  end
  table.sort(uses, function(one, other) return one[2] < other[2] end)
  for i, use in ipairs(uses) do
    if use[2] >= old and #uses - i < via.MOST_USED / 2 then break end
    call('HDEL', USED(host), use[1])
  end
end

local function note_use(host, proxy, kind, ms)
  local latency, errors = string.match(call('HGET', USED(host), proxy) or '', '^%d+ (%-?%d+) (%d+)$')
  latency, errors = tonumber(latency) or -1, tonumber(errors) or 0
  if kind == 1 and ms >= 0 then latency = latency < 0 and ms or latency + (ms - latency) / 8 end
  if not ROUTINE[kind] then errors = errors + 1 end
  call('HSET', USED(host), proxy, integer(now_ms()) .. ' ' .. integer(math.floor(latency + 0.5)) .. ' ' .. integer(errors))
  call('PEXPIRE', USED(host), REMEMBERED)
  if call('HLEN', USED(host)) > via.MOST_USED then forget_uses(host) end
end

function via.note_tier(place, tier)
  local choice = naming.pool_route(place)
  if choice then call('HSET', USED(naming.host_in(place)), 't ' .. choice, tier) end
end

-- Takes a fetch's result for the tier that it used.
local function hear_tier(place, choice, proxy, blocked)
  local state = call('HMGET', HOST(place), 'l', 'lb', 'lk')
  local score = tonumber(call('ZSCORE', RING(choice), proxy) or nil)
  if not score then return end
  local tier, used = math.floor(score / via.TIER), tonumber(state[1])
  if not blocked then
    if state[2] then call('HDEL', HOST(place), 'lb') end
    if used and tier < used then
      call('HSET', HOST(place), 'l', tier, 'lk', 0)
      via.note_tier(place, tier)
    end
  elseif used and tier < used then
    call('HINCRBY', HOST(place), 'lk', 1)
  elseif call('HINCRBY', HOST(place), 'lb', 1) >= TIER_BLOCKS then
    call('HSET', HOST(place), 'lb', 0, 'lu', 1)  -- claim goes up a tier
  end
end

-- kind, ms: the signal of a fetch through this proxy of the pool.
function hear_proxy(place, proxy, kind, ms)
  local choice, _, session = naming.pool_route(place)
  note_use(naming.host_in(place), proxy, kind, ms)
  if kind == PROXY_FAILED then fail_proxy(proxy, naming.host_in(place), ms)
  elseif kind == 3 then fail_proxy(proxy, naming.host_in(place), 0)
  elseif call('HEXISTS', POOL, proxy) == 1 then
    local state = call('HMGET', PROXY(proxy), 'f', 'ok', 'lo')
    if state[1] or state[3] then call('HDEL', PROXY(proxy), 'f', 'fh', 'lo') end
    if not state[2] then call('HSET', PROXY(proxy), 'ok', 1) end
    if state[1] or not state[2] then wake_stalled(100) end  -- it may have more requests now
    if choice and kind ~= 2 then hear_tier(place, choice, proxy, kind == 4) end
  end
  if kind == 4 and session and session ~= '' then
    call('HDEL', HOST(place), 'px')
    call('HINCRBY', HOST(place), 'sx', 1)
  end
end
end
