gate.FREE = {till = 0, robots_delay = 0, robots_wait = 0}

function gate.rules_of(host)
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
    return gate.FREE
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

-- What operators and the robots.txt say about the host of a place, over the rules of the place itself.
function gate.with_orders(rules, host)
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

function gate.knows_robots(host)
  return (tonumber(call('HGET', HOST(host), 'ro')) or 0) > now
end

-- ms; one that has not answered yet is asked at the first rate.
function gate.adaptive_gap(host)
  return tonumber(call('HGET', HOST(host), 'g')) or 1000 / pace_rules().FIRST_RATE
end

-- Slots of a host, or of "@<address>", that fetches outside of the queue have, or wait for, and when the
-- first of them lapses (ms). `key` has the `v` of the place.
function gate.count_permits(place, key)
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

function gate.load_address(name)
  local address = addresses[name]
  if not address then
    local state = call('HMGET', ADDRESS(name), 'a', 'n', 'd', 'v')
    address = {name = name, active = math.max(0, tonumber(state[1]) or 0), next_time = tonumber(state[2]) or 0,
      unsent = is_unsent(state[3]), beside = 0, until_then = 0}
    if state[4] then address.beside, address.until_then = gate.count_permits('@' .. name, ADDRESS(name)) end
    addresses[name] = address
  end
  return address
end

function gate.room_at(address, concurrency, delay)
  if delay > 0 and (address.unsent or address.next_time > now + AHEAD) then return 0 end
  local room = concurrency > 0 and concurrency - address.active - address.beside or math.huge
  return delay > 0 and math.min(room, 1) or room
end
