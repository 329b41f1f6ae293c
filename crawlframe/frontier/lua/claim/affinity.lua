-- Affinity: a host belongs to the node of the slot that the hash of its name, or of its domain, names. A claim takes the
-- hosts of its own node first. Hosts of another node follow when they are due for longer, or at once when
-- that node does not ask for more.
local RESERVED = 250  -- ms for which a due host is left to a node that has asked for more within this time
local HEAD_START = 2000  -- ms that another node's host must have been due earlier to be taken before own hosts
local LEAST, MOST = 16, 256  -- due hosts that one claim looks at
local UPCOMING = 16  -- hosts that are looked at to find out when to ask again
local LONGEST = 253  -- characters of a name of a host
local LABELS = 9  -- at the end of a name that can be a domain: unpack has a limit, and pages name the hosts

local by_domain, generations, slots

-- Reads AFFINITY. Without it, or when it does not name this generation and another, all hosts are equal.
local function load_table()
  local text = redis.pcall('GET', AFFINITY)  -- if damaged, a node writes the table anew
  local readable, kept = pcall(cmsgpack.unpack, type(text) == 'string' and text or '')
  if not readable or type(kept) ~= 'table' or type(kept[2]) ~= 'table' or type(kept[3]) ~= 'string' then return end
  local members, n = {}, 0
  for _, member in ipairs(kept[2]) do members[tostring(member)], n = true, n + 1 end
  if n < 2 or not members[generation] then return end
  by_domain, generations, slots, affinity.members = kept[1] == 'domain', kept[2], kept[3], members
  affinity.count = n
end

-- The names whose hash decides: the host without its route, or the registered domain. DOMAINS has
-- the rules of the Public Suffix List by the ends of names.
local function names_of(hosts)
  local names = {}
  for i, host in ipairs(hosts) do names[i] = naming.host_in(host) end
  if not by_domain then return names end
  local ends, places = {}, {}
  for i, name in ipairs(names) do
    name = string.gsub(name, ':%d+$', '')
    name = string.gsub(name, '%.$', '')
    names[i] = name
    places[i] = #ends
    if #name <= LONGEST and not string.find(name, '%.%d+$') and not string.find(name, '[%]/@]') then
      local starts, at = {1}, 1
      while at do
        at = string.find(name, '.', at, true)
        at = at and at + 1
        starts[#starts + 1] = at
      end
      for label = math.max(1, #starts - LABELS + 1), #starts do
        ends[#ends + 1] = string.sub(name, starts[label])
      end
    end
  end
  places[#names + 1] = #ends
  local rules = #ends > 0 and redis.pcall('HMGET', DOMAINS, unpack(ends)) or {}
  for i in ipairs(names) do
    local first, last = places[i] + 1, places[i + 1]
    local suffix = 1  -- labels of the public suffix
    for place = first, last do
      if rules[place] then
        suffix = last - place + 1 + (tonumber(rules[place]) or 0)
        if place == first then suffix = math.min(suffix, last - first + 1) end
        break
      end
    end
    if last - first + 1 > suffix then names[i] = ends[last - suffix] end
  end
  return names
end

-- The generation that each host belongs to; nil for other names.
local function owners_of(hosts)
  local owners = {}
  for i, name in ipairs(names_of(hosts)) do
    if not string.find(name, '^[/@]') then
      local slot = tonumber(string.sub(redis.sha1hex(name), 1, 3), 16)
      local high, low = string.byte(slots, 2 * slot + 1, 2 * slot + 2)
      owners[i] = low and generations[256 * high + low + 1]
    end
  end
  return owners
end

-- The due hosts that this claim takes, in order.
function affinity.due()
  local most = math.max(LEAST, math.min(MOST, want * affinity.count))
  local listed = call('ZRANGEBYSCORE', HOSTS, '-inf', integer(now), 'WITHSCORES', 'LIMIT', 0, most)
  local hosts, since, own, others = {}, {}, {}, {}
  for i = 1, #listed, 2 do hosts[#hosts + 1], since[#since + 1] = listed[i], tonumber(listed[i + 1]) end
  local owners = owners_of(hosts)
  for i in ipairs(hosts) do
    local owner = owners[i]
    if not owner or owner == generation then
      own[#own + 1] = i
      if #own == want then break end
    elseif not affinity.hungry[owner] or since[i] <= now - RESERVED then others[#others + 1] = i end
  end
  local due, next_own, next_other = {}, 1, 1
  while #due < want and (own[next_own] or others[next_other]) do
    local mine, other = own[next_own], others[next_other]
    if not mine or other and since[other] + HEAD_START < since[mine] then
      due[#due + 1], next_other = hosts[other], next_other + 1
    else due[#due + 1], next_own = hosts[mine], next_own + 1 end
  end
  return due
end

-- The first hosts in the form of ZRANGE WITHSCORES, with the time from which on this generation takes them.
function affinity.first()
  local listed = call('ZRANGE', HOSTS, 0, UPCOMING - 1, 'WITHSCORES')
  local hosts = {}
  for i = 1, #listed, 2 do hosts[#hosts + 1] = listed[i] end
  local owners, first = owners_of(hosts), nil
  for i in ipairs(hosts) do
    local from = tonumber(listed[2 * i])
    if owners[i] and owners[i] ~= generation and affinity.hungry[owners[i]] then from = from + RESERVED end
    first = math.min(first or from, from)
  end
  if #hosts == UPCOMING then first = math.min(first, math.max(tonumber(listed[#listed]), now + LEFT)) end
  return {'', first}
end

load_table()
