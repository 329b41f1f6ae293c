-- permit: lets a generation make one fetch of a host outside of the queue, within the limits of the host
-- and of the task; or ends it.
-- ARGV[1] generation; ARGV[2] task, or empty: the fetch of a command; ARGV[3] host; ARGV[4] token of the fetch
-- ARGV[5] ms for which the permit is kept from the beginning of the fetch; 0: the fetch is over; -1: it was sent
-- ARGV[6] longest wait (ms): later permits are not given. When the fetch is over: kind of its signal
-- ARGV[7] rid of a request of the generation that lends the fetch its slot of this host; or empty. When it is over: ms of
--         the signal
-- ARGV[8] address of the host, if the task limits requests per address and it is known; or empty. When it was sent, or is
--         over: how many ms ago it was sent; negative: it was not
-- ARGV[9] and ARGV[10] delay (ms) and concurrency of a fetch without a task
-- Returns: {1 if the permit is given, ms until the fetch may start, 1 if it is to be reported when it was sent}; {0, ms
--          after which to ask again, or at least that long}, and a free slot and the next time are then kept for this
--          token for a while; {-1, 0}: the task is over. Asked again with the same token, it returns the same permit.
-- Errors FENCED, ERA when the era is not open.
local refusal = closed()
if refusal then return refusal end
local generation, id, host, token = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lasts, most, lender = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local own = lender ~= ''
if call('SISMEMBER', FENCED, generation) == 1 then
  return redis.error_reply('FENCED generation ' .. generation .. ' was declared dead')
end
local KEPT = 3000  -- ms for which a slot is kept for one that waits; it asks again before
local POLL, SENT_SOON = 100, 20  -- ms after which to ask again
local now = now_ms()

-- The permit is kept with the host, and with its address for the limits of that.
local function drop(address)
  local place = address and naming.entry_of(address)
  if place and call('HDEL', PERMITS(place), token) == 1 then
    if call('EXISTS', PERMITS(place)) == 0 then call('HDEL', ADDRESS(address), 'v') end
    show_address(address)
  end
  return call('HDEL', PERMITS(host), token)
end

if lasts <= 0 then
  local address = address_of(host)
  local site, proxy = naming.split_pair(host)
  note_sent(host, ARGV[8], token)
  if proxy then call('ZREM', BUSY(site), proxy) end  -- claim looks at the pair itself
  if lasts == 0 and drop(address) == 1 then
    note_signal(id, host, tonumber(ARGV[6]), tonumber(ARGV[7]), '')
    hear_signals()
    if call('EXISTS', PERMITS(host)) == 0 then call('HDEL', HOST(host), 'v') end
    if not (address and call('ZSCORE', WAITING(address), host)) then reconsider(host) end
  end
  return {1, 0}
end

-- Permits of a host or "@<address>": until when the others are kept, and the permit with our token.
local function read_permits(place)
  local found, permits = {latest = 0}, call('HGETALL', PERMITS(place))
  for i = 1, #permits, 2 do
    local kind, start, ends = string.match(permits[i + 1], '^(%a) (%d+) (%d+)$')
    ends = tonumber(ends) or 0
    if ends <= now then call('HDEL', PERMITS(place), permits[i])
    elseif permits[i] == token then
      found.waits = kind == 'w' or kind == 't'
      found.known = not found.waits and tonumber(start)
      found.kept = found.waits and ends - now > KEPT / 2
    else found.latest = math.max(found.latest, ends) end
  end
  return found
end

-- The delay after the last request counts from when that is sent, unless our own request has not been sent.
local function unsent_at(place)
  local last = string.match(place.d or '', ' (.+)$')
  local till = last and last ~= lender and unsent_until(place.d) or 0
  return till > now and (till < FOREVER or place.active > 0)
end

local function is_last(key) return string.sub(call('HGET', key, 'd') or '', -1 - #token) == ' ' .. token end

local here = read_permits(host)
if here.known then
  local place = address_of(host)
  local spaced = is_last(HOST(host)) or place and is_last(ADDRESS(place))
  return {1, math.max(0, here.known - now), spaced and 1 or 0}
end

local task = id == '' and {delay = tonumber(ARGV[9]), concurrency = tonumber(ARGV[10]), robots = true} or task_of(id)
if not task or task.state == 'cancelling' then
  drop(address_of(host))
  return {-1, 0}
end
if task.shares and ARGV[8] ~= '' and not address_of(host) then move_host(host, ARGV[8]) end
local seen = gate.open(host, token)
local address = task.shares and seen.address or nil
local there = address and read_permits(naming.entry_of(address.name))

-- Claims see it by `v` of the host and of the address.
local function keep_at(place, key, others, permit, ends)
  local latest = integer(math.max(others.latest, ends))
  call('HSET', PERMITS(place), token, permit)
  call('PEXPIREAT', PERMITS(place), latest)
  call('HSET', key, 'v', latest)
end

local function keep(kind, start, ends)
  local permit = kind .. ' ' .. integer(math.ceil(start)) .. ' ' .. integer(math.ceil(ends))
  keep_at(host, HOST(host), here, permit, math.ceil(ends))
  if address then keep_at(naming.entry_of(address.name), ADDRESS(address.name), there, permit, math.ceil(ends)) end
end

local terms = gate.terms(seen, task)
local delay, start = math.max(terms.delay, terms.gap or 0), terms.at
local crowded = seen.active + seen.beside >= terms.concurrency
local spaced, unsent = terms.delay > 0, terms.delay > 0 and unsent_at(seen)
-- Others wait until it is reported that this one was sent, or until it lapses.
local function space(key, delay)
  call('HSET', key, 'd', integer(delay) .. '~' .. integer(math.ceil(start + lasts)) .. ' ' .. token)
end

if address then
  crowded = crowded or task.ip_concurrency > 0 and address.active + address.beside >= task.ip_concurrency
  if task.ip_delay > 0 then
    start = math.max(start, address.next_time)
    spaced, unsent = true, unsent or unsent_at(address)
  end
end
local till = gate.ask(seen, task, start)
local idle = seen.active <= 0 and call('EXISTS', LANES(host)) == 0
local given = false
if till then start = till
elseif start - now > most then  -- too late
elseif not own and crowded then start = math.max(start, now + POLL)
elseif unsent then start = math.max(now + SENT_SOON, start - delay)
else given = true end
if given then
  keep(own and 'o' or 'g', start, start + lasts)
  if delay > 0 then call('HSET', HOST(host), 'n', exact(start + delay)) end
  if terms.delay > 0 then space(HOST(host), terms.delay) end
  if address and task.ip_delay > 0 then
    call('HSET', ADDRESS(address.name), 'n', exact(start + task.ip_delay))
    space(ADDRESS(address.name), task.ip_delay)
  end
elseif not till and start - now <= most then
  if not here.kept then keep(own and 't' or 'w', now, now + KEPT) end
else drop(address and address.name) end
if address and address.active <= 0 then rest_address(ADDRESS(address.name)) end
if idle then rest_host(host) elseif given then call('PERSIST', HOST(host)) end
if given and call('ZSCORE', HOSTS, host) then bring_back(host) end
return {given and 1 or 0, math.ceil(start - now), given and spaced and 1 or 0}
