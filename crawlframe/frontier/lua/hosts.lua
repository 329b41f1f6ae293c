-- hosts: the state of hosts (read only).
-- KEYS[1] tag of the partition
-- ARGV[1] msgpack list of names, at most 500
-- Returns: {now (ms), then for each name: {field, value, ... of its hash}, how many requests are
--          ready, and the limits of the running tasks that have some, or nil: longest delay (ms),
--          least concurrency, 1 if the rate is adaptive}
local MAX_LANES = 100  -- lanes of one host that are looked at
local answer = {integer(now_ms())}
for _, host in ipairs(cmsgpack.unpack(ARGV[1])) do
  local queued, delay, concurrency, adaptive = 0, false, false, false
  for _, member in ipairs(call('ZRANGE', LANES(host), 0, MAX_LANES - 1)) do
    queued = queued + call('LLEN', LANE(member .. ':' .. host))
    local task = task_of((string.match(member, '^%d+')))
    if task and task.state == 'running' then
      delay = math.max(delay or 0, task.delay)
      concurrency = math.min(concurrency or math.huge, task.concurrency)
      adaptive = adaptive or task.auto
    end
  end
  answer[#answer + 1] = {call('HGETALL', HOST(host)), queued, delay, concurrency, adaptive and 1 or 0}
end
return answer
