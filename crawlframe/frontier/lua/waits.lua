-- waits: why ready requests of tasks wait at some hosts (read only).
-- ARGV[1] msgpack list of tasks; ARGV[2] msgpack list of hosts, at most 500
-- Returns: for each task that has some there: {task, ready, how many of these the gate lets go, and of the others: from
--         when on the first of them may (ms; FOREVER: until an operator acts), why not before, its host}
local MAX_LANES = 100  -- lanes of one host that are looked at
local found, order = {}, {}
for _, id in ipairs(cmsgpack.unpack(ARGV[1])) do
  found[id] = {ready = 0, open = 0, till = FOREVER, why = '', host = ''}
  order[#order + 1] = id
end

local function look(host, id, ready)
  local of, task = found[id], task_of(id)
  if not task or ready == 0 then return end
  local till, why = gate.wait(host, task)
  of.ready = of.ready + ready
  if not till then of.open = of.open + ready
  elseif of.why == '' or till < of.till then of.till, of.why, of.host = till, why, host.name end
end

for _, name in ipairs(cmsgpack.unpack(ARGV[2])) do
  local host
  for _, member in ipairs(call('ZRANGE', LANES(name), 0, MAX_LANES - 1)) do
    local id = string.match(member, '^%d+')
    if found[id] then
      host = host or gate.open(name)
      look(host, id, call('LLEN', LANE(member .. ':' .. name)))
    end
  end
end
local answer = {}
for _, id in ipairs(order) do
  local of = found[id]
  if of.ready > 0 then answer[#answer + 1] = {id, of.ready, of.open, integer(of.till), of.why, of.host} end
end
return answer
