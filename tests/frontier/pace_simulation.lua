-- A server, and a host that is asked as claim/take.lua does it: the decisions are those of _pace.lua,
-- whose text stands above, in define_pace(). Times are ms. Deterministic for a seed.
-- ARGV: kind of server, duration (s), seed; then what the kind needs.
-- Returns the log: {sent at, answered at, status, ...} and {requests lost, those that waited}
local pace = define_pace()
local kind, duration, seed = ARGV[1], ARGV[2] * 1000, tonumber(ARGV[3])

local function chance()  -- Park and Miller 1988: a value from 0 to 1
  seed = seed * 16807 % 2147483647
  return seed / 2147483647
end

-- Servers: status, latency (ms), Retry-After (ms, -1: none) of a request that arrives at `now`.
local servers = {}

local function bucket(rate_at)
  local tokens, last = nil, 0
  return function(now)
    local rate = rate_at(now)
    tokens = math.min(rate, (tokens or rate) + (now - last) / 1000 * rate)
    last = now
    if tokens < 1 then return 429, 1 end
    tokens = tokens - 1
    return 200, 50
  end
end

function servers.bucket(rest)
  local reply = bucket(function() return 5 end)
  return function(now)
    local status, latency = reply(now)
    return status, latency, status == 429 and rest or -1
  end
end

function servers.changing()
  return bucket(function(now) return now >= 120000 and now < 300000 and 2 or 20 end)
end

function servers.outage()
  local reply = bucket(function() return 20 end)
  return function(now)
    if now >= 60000 and now < 120000 then return 503, 1 end
    return reply(now)
  end
end

function servers.pool()
  local free = {0, 0}
  return function(now)
    local place = free[1] <= free[2] and 1 or 2
    local done = math.max(now, free[place]) + 100
    free[place] = done
    return 200, done - now
  end
end

-- A server that bears 1,000 a second, and whose latencies vary as those of real pages do.
function servers.varied()
  return function() return 200, 30 - 200 * math.log(chance()) end
end

local reply = servers[kind](tonumber(ARGV[4]) or -1)
local concurrency, slots = 8, tonumber(ARGV[5]) or 1000
local host = {r = 0, f = 0, u = 0, s = 0, p = 0, gap = 0, pace = pace.new_pace()}
local now, next_time, flying, log, bound = 0, 0, {}, {}, 0

local function claim()
  if now < next_time or now < host.r then return end
  local limit = host.p > 0 and 1 or math.min(concurrency, slots)
  local gap = pace.gap_of(host.pace)
  local n = math.min(limit - #flying, pace.batch_of(gap, next_time, now))
  if n <= 0 then return end
  bound = pace.held_up(next_time, now, gap) and bound + n or 0
  next_time = pace.next_after(next_time, now, gap, n, 0)
  if host.p > 0 then host.p = 2 end
  for _ = 1, n do
    local arrived = now + 1 + chance() * 3
    local status, latency, named = reply(arrived)
    -- Reported some ms later than it was answered.
    flying[#flying + 1] = {arrived, arrived + latency, status, named or -1,
      math.ceil(arrived + latency + 4 + chance() * 12)}
  end
end

local function report()
  for i = #flying, 1, -1 do
    local sent, replied, status, named, reported = unpack(flying[i])
    if reported <= now then
      table.remove(flying, i)
      log[#log + 1] = math.floor(sent)
      log[#log + 1] = math.ceil(replied)
      log[#log + 1] = status
      host.drain = 0
      if status == 200 then pace.hear(host, 1, replied - sent, now, bound > 0)
      else pace.hear(host, 2, named, now, false) end
      bound = math.max(0, bound - 1)
      if host.drain > 0 then next_time = math.max(next_time, now + host.drain) end
    end
  end
end

while now < duration do
  report()
  claim()
  -- To the next event; claims are late by some ms.
  local soon = math.huge
  for _, one in ipairs(flying) do soon = math.min(soon, one[5]) end
  local due = math.max(next_time, host.r)
  if due > now then soon = math.min(soon, due) end
  now = math.max(now + 1, math.ceil(math.min(soon, now + 100000) + chance() * 4))
end
return log
