-- hosts: the state of hosts (read only).
-- ARGV[1] msgpack list of names, at most 500
-- Returns: {now (ms), then for each name: {field, value, ... of its hash}, how many requests are ready, from when on
--          the gate lets one more go (ms; 0: at once, FOREVER: until an operator acts) and why not before, and the limits
--          in force for the running tasks that have some, or nil: longest delay (ms), least concurrency, and longest gap
--          (ms, as text) of the adaptive rate}
local MAX_LANES = 100  -- lanes of one host that are looked at
local NO_TASK = {robots = true}

-- The gate's answer to the running tasks that have requests there: the first that may go decides.
local function ask_for(host, tasks, found)
  for _, task in ipairs(#tasks > 0 and tasks or {NO_TASK}) do
    local till, why = gate.wait(host, task)
    if not found.till or (till or 0) < found.till then found.till, found.why = till or 0, why or '' end
  end
  for _, task in ipairs(tasks) do
    local terms = gate.terms(host, task)
    found.delay = math.max(found.delay or 0, terms.delay)
    found.concurrency = math.min(found.concurrency or math.huge, terms.concurrency)
    found.gap = terms.gap and math.max(found.gap or 0, terms.gap) or found.gap
  end
end

local answer = {integer(now_ms())}
for _, name in ipairs(cmsgpack.unpack(ARGV[1])) do
  local queued, running, seen, found = 0, {}, {}, {}
  for _, member in ipairs(call('ZRANGE', LANES(name), 0, MAX_LANES - 1)) do
    queued = queued + call('LLEN', LANE(member .. ':' .. name))
    local task = task_of((string.match(member, '^%d+')))
    if task and task.state == 'running' and not seen[task.id] then
      seen[task.id], running[#running + 1] = true, task
    end
  end
  ask_for(gate.open(name), running, found)
  answer[#answer + 1] = {call('HGETALL', HOST(name)), queued, integer(found.till), found.why, found.delay or false,
    found.concurrency or false, found.gap and string.format('%.3f', found.gap) or false}
end
return answer
