-- Pace: the effect of fetches' signals on their host. This is the body of a function, which is only
-- called where there is such a host, as defining all this takes longer than a short script. Nothing here calls Redis or looks at a clock:
-- a host is a table with the fields of its hash that matter (load_host in _signals.lua). Times are ms.
local ANSWERED, REFUSED, UNREACHABLE, BLOCKED, QUOTA = 1, 2, 3, 4, 6  -- as in records.py

-- The adaptive rate --------------------------------------------------------------------------------
-- AIMD (Chiu and Jain 1989) in the form of CUBIC (RFC 9438), counted in requests in place of round
-- trips: a refusal makes the rate a part of the ceiling, the rate at which it happened; then it rises
-- quickly, stays near the ceiling for long, and at last looks for a higher one. Congestion is also
-- seen before anything is refused, as in TCP Vegas (Brakmo and Peterson 1995): when the smoothed
-- latency exceeds its least value of late, and more than one request is in flight, so that it may be
-- our own requests that wait for each other.
local FIRST_RATE, LEAST_RATE, MOST_RATE = 1, 1 / 60, 1000  -- requests per second
local QUICK_GROWTH = 0.1  -- per answered request, while no ceiling is known
local BACKED_OFF, DRAINED = 0.85, 0.9  -- part of the ceiling after a refusal, and after high latency
local HALVED = 0.5  -- part of the rate after the first refusal, and after refused trials
local SPAN, SPAN_TIME = 80, 10  -- requests, and seconds, until the rate is back at its ceiling
local COST = 8  -- the same, as a multiple of the rest that a refusal costs
local EXPLORE = 1.15  -- spans after which the ceiling is taken to be out of date
local WINDOW = 500  -- answers that are searched for the least latency
local CATCH_UP = 0.8  -- part of the gap that two requests may come close to make up for lateness
local BATCHED = 10  -- ms: requests with smaller gaps are claimed several at a time

local function new_pace()
  return {rate = FIRST_RATE, ceiling = 0, part = 0, k = 0, span = 0, calm = 0, latency = 0,
    deviation = 0, base = 0, lowest = 0, seen = 0, at = 0, step = 0}
end

-- As it is kept with its host.
local PACE_FIELDS = {'rate', 'ceiling', 'part', 'k', 'span', 'calm', 'latency', 'deviation', 'base',
  'lowest', 'seen', 'at', 'step'}
local function load_pace(packed)
  local mine = new_pace()
  local readable, values = pcall(cmsgpack.unpack, packed or '\144')
  if readable and type(values) == 'table' then
    for i, field in ipairs(PACE_FIELDS) do mine[field] = tonumber(values[i]) or mine[field] end
  end
  return mine
end

local function pack_pace(mine)
  local values = {}
  for i, field in ipairs(PACE_FIELDS) do values[i] = mine[field] end
  return cmsgpack.pack(values)
end

-- From now on the rate rises from `rate` to the ceiling.
local function back_off(pace, rate, rest)
  pace.rate = math.max(LEAST_RATE, rate)
  pace.part = pace.rate / pace.ceiling
  pace.k = 0
  pace.span = math.max(SPAN, pace.ceiling * math.max(SPAN_TIME, COST * rest / 1000))
end

local function grow(pace)
  pace.k = pace.k + 1
  if pace.ceiling == 0 then
    pace.rate = pace.rate * (1 + QUICK_GROWTH)
  elseif pace.k <= EXPLORE * pace.span then
    local way = 1 - pace.k / pace.span
    pace.rate = pace.ceiling * (1 - (1 - pace.part) * way * way * way)
  else
    pace.rate = pace.rate * (1 + math.min(0.1, 0.004 * (pace.k - EXPLORE * pace.span)))
  end
  pace.rate = math.min(MOST_RATE, pace.rate)
end

-- Requests per second that were answered of late.
local function delivered(pace)
  return pace.step > 0 and 1000 / pace.step or pace.rate
end

-- `bound`: the host would have got this request earlier but for its gap. Otherwise the rate is not
-- its limit, and nothing says that it bears more. Returns the ms that the server needs to answer
-- its waiting requests, when there are too many.
local function pace_answer(pace, ms, now, bound)
  if bound and pace.at > 0 then
    local step = now - pace.at
    pace.step = pace.step == 0 and step or pace.step + (step - pace.step) / 8
  end
  pace.at = now
  if ms >= 0 then
    if pace.latency == 0 then pace.latency, pace.base, pace.lowest = ms, ms, ms end
    pace.deviation = pace.deviation + (math.abs(ms - pace.latency) - pace.deviation) / 8
    pace.latency = pace.latency + (ms - pace.latency) / 8
    pace.base, pace.lowest = math.min(pace.base, pace.latency), math.min(pace.lowest, pace.latency)
    pace.seen, pace.calm = pace.seen + 1, math.max(0, pace.calm - 1)
    if pace.seen >= WINDOW then pace.seen, pace.base, pace.lowest = 0, pace.lowest, pace.latency end
    local most = 1.5 * pace.base + 25 + 1.5 * pace.deviation
    if pace.calm == 0 and pace.latency > most and pace.rate * pace.latency > 1000 then
      local excess = pace.latency - pace.base
      pace.calm = 10 + math.ceil(pace.rate * pace.latency / 1000)
      pace.ceiling = math.min(pace.rate, delivered(pace))
      back_off(pace, DRAINED * pace.ceiling, 0)
      pace.latency = pace.base
      return excess
    end
  end
  if bound and ms >= 0 then grow(pace) end
  return 0
end

-- `failures`: in a row, this one included. Trials after the first one say nothing of the rate, so that
-- an outage does not cost all that was learned.
local function pace_failure(pace, failures, rest)
  pace.at = 0
  if failures == 1 then
    local unknown = pace.ceiling == 0 or pace.rate > 1.2 * pace.ceiling
    pace.ceiling = math.min(pace.rate, delivered(pace))
    if unknown then
      back_off(pace, HALVED * pace.ceiling, rest)
    else
      back_off(pace, BACKED_OFF * pace.ceiling, rest)
    end
  elseif failures <= 3 then
    back_off(pace, HALVED * pace.rate, rest)
  end
end

-- The gap of a host in ms, and how many requests may be claimed now when the next time has come.
local function gap_of(pace) return 1000 / pace.rate end

local function batch_of(gap, next_time, now)
  if gap >= BATCHED then return 1 end
  return math.max(1, math.min(math.floor(BATCHED / gap), math.floor((now - next_time) / gap) + 1))
end

-- The time of the next request after n were claimed. Late ones are made up for, so that the rate is
-- kept on the average; `least` is kept exactly.
local function next_after(next_time, now, gap, n, least)
  return math.max(now + math.max(least, CATCH_UP * gap), next_time + n * gap)
end

-- Whether the gap held up a claim that took place now.
local function held_up(next_time, now, gap)
  return now - next_time <= math.max(5, gap / 2)
end

-- Rests ---------------------------------------------------------------------------------------------
local PAGES, FEWEST_PAGES = 50, 20  -- of the window of the breaker
local PARKED_FOR = 3600000  -- ms; also the rest above which the operator is told
local LEAST_REST, MOST_FIRST, MOST_REST = 200, 30000, 300000  -- ms
local SHORT_REST = 10000  -- ms: one request in that time is bearable, so rests double no further
local TOO_MANY = 3  -- requests in a row that did not reach the host

-- Doubles with each failure. It need not be much longer than a quarter of the time for which the host
-- has failed, so that little is lost when it recovers.
local function rest_of(host, first, now)
  local most = math.max(SHORT_REST, (now - host.s) / 4)
  return math.max(first, math.min(first * 2 ^ math.min(30, host.f - 1), most, MOST_REST))
end

local function fail(host, first, named, why, now)
  host.f = host.f + 1
  if host.s == 0 then host.s = now end
  local rest = rest_of(host, first, now)
  if named >= 0 then rest = math.max(named, host.f > 1 and rest or LEAST_REST) end
  host.r, host.p = now + rest, 1
  host.why = named > PARKED_FOR and 'asked' or why
  if host.pace then pace_failure(host.pace, host.f, rest) end
end

local function park(host, named, now)
  host.r, host.p, host.why = now + math.max(named, PARKED_FOR), 1, 'blocked'
end

-- A proxy that a host blocks is left alone there at once: others are there in its place.
local FIRST_BAN, MOST_BAN = 60000, 21600000  -- ms

local function ban(host, now)
  host.f = host.f + 1
  if host.s == 0 then host.s = now end
  local rest = math.min(MOST_BAN, FIRST_BAN * 2 ^ math.min(30, host.f - 1))
  host.r, host.p, host.why = now + rest, 1, 'blocked'
  if host.pace then pace_failure(host.pace, host.f, rest) end
end

-- The last pages are only kept once one was a block, until none is.
local function note_page(host, block)
  if not (block or host.b) then return end
  host.b = string.sub((host.b or '') .. (block and '1' or '0'), -PAGES)
  local _, blocks = string.gsub(host.b, '1', '')
  if blocks == 0 then host.b = nil end
  return #(host.b or '') >= FEWEST_PAGES and 2 * blocks > #host.b
end

local function recover(host)
  if host.why == 'blocked' then host.b = nil end
  host.f, host.u, host.s, host.p, host.r, host.why = 0, 0, 0, 0, 0, nil
end

-- The host answers, and allows few more requests: they go one at a time, each after a rest. `old`: it
-- rests already, which may be for another reason.
local function ration(host, ms, now, old)
  host.r = math.max(host.r, now + ms)
  if old and host.why and host.why ~= 'quota' then return end
  host.p, host.f, host.s = 1, 0, 0
  host.why = ms > PARKED_FOR and 'asked' or 'quota'
end

-- Changes a host by the signal of one fetch. ms: as in records.Signal.
local function hear(host, kind, ms, now, bound)
  -- If the host rests, or a trial is due, it is an older request.
  local old, on_trial = host.r > now or host.p == 1, host.p == 2
  local blocking = not host.pair and note_page(host, kind == REFUSED or kind == BLOCKED)
  if kind == UNREACHABLE then
    host.u = host.u + 1
    if not old and (on_trial or host.u >= TOO_MANY) then
      if host.why == 'blocked' and on_trial and not host.pair then park(host, -1, now)
      else fail(host, 1000, -1, 'unreachable', now) end
    end
    return
  end
  host.u = 0
  if kind == QUOTA then
    if on_trial then recover(host) end
    ration(host, ms, now, old)
    return
  end
  if kind == ANSWERED or kind == BLOCKED and not host.pair and not (on_trial and host.why == 'blocked') then
    if on_trial then recover(host) elseif not old then host.f, host.s = 0, 0 end
  end
  if kind == ANSWERED then
    if host.pace then host.drain = pace_answer(host.pace, ms, now, bound) end
  elseif old then
    if kind == REFUSED and now + ms > host.r then
      host.r = now + ms
      if ms > PARKED_FOR and host.why ~= 'blocked' then host.why = 'asked' end
    end
  elseif host.pair and (kind == BLOCKED or on_trial and host.why == 'blocked') then ban(host, now)
  elseif blocking or on_trial and host.why == 'blocked' then
    park(host, kind == REFUSED and ms or -1, now)
  elseif kind == REFUSED then
    local gap = host.pace and gap_of(host.pace) or host.gap
    fail(host, math.max(LEAST_REST, math.min(4 * gap, MOST_FIRST)), ms, 'refused', now)
  end
end

return {
  FIRST_RATE = FIRST_RATE, new_pace = new_pace, load_pace = load_pace, pack_pace = pack_pace, gap_of = gap_of, batch_of = batch_of,
  next_after = next_after, held_up = held_up, hear = hear,
}
