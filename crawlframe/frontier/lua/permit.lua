-- permit: lets a generation make one fetch of a host outside of the queue, within the limits of the host
-- and of the task; or ends it.
-- KEYS[1] tag of the partition
-- ARGV[1] generation; ARGV[2] task; ARGV[3] host; ARGV[4] token of the fetch
-- ARGV[5] ms for which the permit is kept from the beginning of the fetch; 0: the fetch is over
-- ARGV[6] longest wait (ms): later permits are not given. When the fetch is over: kind of its signal
-- ARGV[7] 1: a request of the generation holds a slot of this host, which the fetch uses. When it is over: ms of the signal
-- Returns: {1 if the permit is given, ms until the fetch may begin}; {0, ms after which to ask again, or at least that
--          long}, and a free slot is then kept for this token for a while; {-1, 0}: the task is over. Asked again with
--          the same token, it returns the same permit.
-- Errors FENCED, ERA when the era is not open.
local refusal = closed()
if refusal then return refusal end
local generation, id, host, token = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lasts, most, own = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
if call('SISMEMBER', FENCED, generation) == 1 then
  return redis.error_reply('FENCED generation ' .. generation .. ' was declared dead')
end
local KEPT = 3000  -- ms for which a slot is kept for one that waits; it asks again before
local POLL, SENT_SOON = 100, 20  -- ms after which to ask again
local now = now_ms()

if lasts == 0 then
  if call('HDEL', PERMITS(host), token) == 1 then
    note_signal(id, host, tonumber(ARGV[6]), tonumber(ARGV[7]), '')
    hear_signals()
    if call('EXISTS', PERMITS(host)) == 0 then call('HDEL', HOST(host), 'v') end
    local address = address_of(host)
    if not (address and call('ZSCORE', WAITING(address), host)) then reconsider(host) end
  end
  return {1, 0}
end

local permits, others, latest, known, kept = call('HGETALL', PERMITS(host)), 0, 0, nil, false
for i = 1, #permits, 2 do
  local kind, start, ends = string.match(permits[i + 1], '^(%a) (%d+) (%d+)$')
  ends = tonumber(ends) or 0
  if ends <= now then call('HDEL', PERMITS(host), permits[i])
  elseif permits[i] == token then
    known = kind ~= 'w' and tonumber(start)
    kept = kind == 'w' and ends - now > KEPT / 2
  else
    latest = math.max(latest, ends)
    if kind == 'g' then others = others + 1 end
  end
end
if known then return {1, math.max(0, known - now)} end

local task = task_of(id)
if not task or task.state == 'cancelling' then
  call('HDEL', PERMITS(host), token)
  return {-1, 0}
end

-- Claims see it by `v` of the host.
local function keep(kind, start, ends)
  call('HSET', PERMITS(host), token, kind .. ' ' .. integer(start) .. ' ' .. integer(ends))
  latest = math.max(latest, ends)
  call('PEXPIREAT', PERMITS(host), integer(latest))
  call('HSET', HOST(host), 'v', integer(latest))
end

local state = call('HMGET', HOST(host), 'a', 'n', 'd', 'r', 'p', 'rd', 'rw', 'od', 'oc', 'op', 'ou', 'ro', 'g')
local active, next_time = tonumber(state[1]) or 0, tonumber(state[2]) or 0
if state[11] and tonumber(state[11]) <= now then state[8], state[9], state[10] = false, false, false end
local till = math.max(held_until(host), task.robots and tonumber(state[7]) or 0)
local delay, concurrency = tonumber(state[8]) or task.delay, tonumber(state[9]) or task.concurrency
if task.robots then
  delay = math.max(delay, tonumber(state[6]) or 0)
  if (tonumber(state[12]) or 0) <= now then concurrency = 1 end  -- this one brings the robots.txt
end
if state[5] then concurrency = 1 end
if task.auto and not state[8] then
  delay = math.max(delay, tonumber(state[13]) or 1000 / pace_rules().FIRST_RATE)
end
local start = math.max(now, next_time)
local idle = active <= 0 and call('EXISTS', LANES(host)) == 0
local given = false
if till > now then start = till
elseif start - now > most then  -- too late
elseif not own and active + others >= concurrency then start = math.max(start, now + POLL)
elseif delay > 0 and active > 0 and not own and is_unsent(state[3]) then start = now + SENT_SOON
else given = true end
if given then
  keep(own and 'o' or 'g', start, start + lasts)
  if delay > 0 then call('HSET', HOST(host), 'n', integer(math.ceil(start + delay))) end
elseif till <= now and start - now <= most and not own then
  if not kept then keep('w', now, now + KEPT) end
else call('HDEL', PERMITS(host), token) end
if idle then rest_host(host) elseif given then call('PERSIST', HOST(host)) end
if given and call('ZSCORE', HOSTS, host) then bring_back(host) end
return {given and 1 or 0, math.ceil(start - now)}
