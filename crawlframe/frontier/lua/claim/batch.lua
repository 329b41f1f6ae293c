-- The batch: delayed requests whose time has come are ready again; then the due hosts have their turns.

local function promote()
  local due = call('ZRANGEBYSCORE', DELAYED, '-inf', integer(now), 'LIMIT', 0, 200)
  local queues = {}
  for _, rid in ipairs(due) do
    local own = call('HGET', OWN, rid)
    if own and split_own(own) == 'd' then
      append(queues, leave(rid, own), rid)
      call('HDEL', OWN, rid)
    else
      call('ZREM', DELAYED, rid)  -- damage, which must not stop the others
      if own and not split_own(own) then doubt() end
    end
  end
  enqueue(queues)
end

-- A node that has just freed a slot, or pushed follow-ups, claims before the others, which would get
-- nothing for as long as little is due at a time. So it leaves one request to each generation that
-- got less than it asked for and holds less than half as much.
local STARVED_FOR = 250  -- ms for which a request may be left to such a generation; a node asks every 100 ms

-- Generations that ask for more and do not take part in affinity. Leaving requests to the others would be
-- in vain.
local function strangers(asking)
  if ARGV[6] == '1' and want > 0 then define.affinity() end
  if not affinity.members then return asking end
  local found = {}
  for _, other in ipairs(asking) do
    affinity.hungry[other] = true
    if not affinity.members[other] then found[#found + 1] = other end
  end
  return found
end

local function count_poorer()
  local n, mine = 0, nil
  local asking = call('ZRANGEBYSCORE', STARVED, integer(now - STARVED_FOR), '+inf')
  for _, other in ipairs(strangers(asking)) do
    if other ~= generation then
      mine = mine or call('SCARD', INPROGRESS(generation))
      if 2 * call('SCARD', INPROGRESS(other)) < mine - 1 then n = n + 1 end
    end
  end
  return n
end

-- The hosts that are due, and how many of them, the first ones, only this generation sees.
local function list_due()
  local due = affinity.members and affinity.due()
  due = due or call('ZRANGEBYSCORE', HOSTS, '-inf', integer(now), 'LIMIT', 0, want)
  if call('EXISTS', APART(generation)) == 0 then return due, 0 end
  local hosts = call('ZRANGEBYSCORE', APART(generation), '-inf', integer(now), 'LIMIT', 0, want)
  local mine = #hosts
  for _, host in ipairs(due) do hosts[#hosts + 1] = host end
  return hosts, mine
end

-- Returns how many requests were taken.
local function take_due()
  local due, mine = list_due()
  local got = 0
  for i, host in ipairs(due) do
    if got >= want then break end
    if i <= mine then call('ZREM', APART(generation), host) end
    got = got + take(host, math.ceil((want - got) / (#due - i + 1)))
  end
  return got
end

-- ms until something more is due; -1: nothing waits for a time.
local function wait_after(got)
  if left > 0 then return LEFT end
  local wait = -1
  local function sooner(first)
    if first[2] then
      local time = math.max(0, math.ceil(tonumber(first[2]) - now))
      if wait < 0 or time < wait then wait = time end
    end
  end
  sooner(affinity.members and got < want and affinity.first() or call('ZRANGE', HOSTS, 0, 0, 'WITHSCORES'))
  sooner(call('ZRANGE', DELAYED, 0, 0, 'WITHSCORES'))
  sooner(call('ZRANGE', APART(generation), 0, 0, 'WITHSCORES'))
  return wait
end

promote()
poorer = count_poorer()
local got = take_due()
show_hosts()
local wait = wait_after(got)
if got < want and call('EXISTS', REQ) == 1 then  -- an idle node writes nothing
  call('ZADD', STARVED, integer(now), generation)
  call('PEXPIRE', STARVED, STARVED_FOR)
else
  call('ZREM', STARVED, generation)
end
save_tasks()
if #rids > 0 then
  keep_pulse()
  call('HSET', OWN, unpack(owners))
  call('SADD', INPROGRESS(generation), unpack(rids))
  call('SET', BATCH(generation), cmsgpack.pack({sequence, rids, spaced}))
end
return answer(wait)
