-- Signals: reports of fetches about their hosts, kept with the hosts. A signal is noted by the verb that
-- frees the slot of its fetch, so it counts once, and all are applied by hear_signals(), which must
-- come before free_slots().
local KINDS = {ANSWERED = 1, SENT = 5, UNSENT = 8}  -- as in records.py
local rules
local function pace_rules()
  rules = rules or define_pace()
  return rules
end

local told, watching = {}, nil  -- host -> signals
local moved = {}  -- host -> the address to which it was connected
local through = {}  -- {place, proxy, kind, ms}: signals of fetches through proxies of the pool

-- This request of the host was sent so many ms ago, through a proxy of the pool, if one is named. Negative: it is not
-- sent. earlier: the next one may go earlier for another reason.
local function note_sent(host, ago, rid, proxy, earlier)
  if proxy and delay_from(HOST(naming.pair(host, proxy)), ago, rid) then via.settle_pair(host, proxy) end
  local told = delay_from(HOST(host), ago, rid) or earlier
  local address = address_of(host)
  if address and delay_from(ADDRESS(address), ago, rid) then show_address(address) end
  local waits = address and call('ZSCORE', WAITING(address), host)
  if told and not waits and call('EXISTS', LANES(host)) == 1 then bring_back(host) end
end

-- A request of a host with an adaptive rate is not sent, through a proxy of the pool, if one is named: the next one may
-- go as much earlier. Returns whether it may, at the host.
local function give_gap_back(host, proxy)
  local FIRST_GAP = 1000  -- as in _gate.lua
  local of_pair = proxy and select(2, naming.pool_route(host))
  local key = HOST(of_pair and naming.pair(host, proxy) or host)
  local state, now = call('HMGET', key, 'n', 'g', 'w'), exact_now()
  local next_time, bound = tonumber(state[1]) or 0, tonumber(state[3]) or 0
  if bound > 0 then call('HINCRBY', key, 'w', -1) end
  if next_time <= now then return false end
  call('HSET', key, 'n', exact(math.max(now, next_time - (tonumber(state[2]) or FIRST_GAP))))
  if of_pair then via.settle_pair(host, proxy) end
  return not of_pair
end

-- Answers matter only to hosts with an adaptive rate, and to watched hosts.
-- proxy: of the pool, that the fetch went through; it says nothing about others then. rid: of its request.
function note_signal(id, host, kind, ms, address, proxy, rid)
  if kind == KINDS.UNSENT then
    local task = task_of(id)
    local earlier = task and task.auto and give_gap_back(host, proxy)
    return note_sent(host, -1, rid, proxy, earlier)  -- its master may not have reported it yet
  end
  if proxy and kind and kind ~= 0 then
    through[#through + 1] = {host, proxy, kind, ms}
    local task = task_of(id)
    if kind == KINDS.ANSWERED and task and task.auto and select(2, naming.pool_route(host)) == false then
      append(told, host, {kind, ms, task.delay, true})
      return
    end
    if kind == via.PROXY_FAILED then
      if ms ~= 0 then return end  -- whatever the host
      kind = 3  -- this pair does not work
    end
    host = naming.pair(host, proxy)
  end
  if kind == via.PROXY_FAILED then kind = 3 end  -- of the one proxy that the place stands for
  if address and address ~= '' then
    local task = task_of(id)
    if task and task.shares then moved[host] = address end
  end
  if not kind or kind == 0 then return end
  local task = task_of(id)
  if kind ~= KINDS.ANSWERED then watching = true
  elseif watching == nil then watching = call('EXISTS', WATCHED) == 1 end
  if watching or task and task.auto then
    append(told, host, {kind, ms, task and task.delay or 0, task and task.auto})
  end
end

-- Defined only where they are needed, as the rules of pace. Returns load_host(name, adaptive) and
-- save_host(name, host, before), and the names of the fields of a host that is watched.
local function define_records()
  local pace = pace_rules()
  local KEPT = {'r', 'f', 'u', 's', 'p', 'why', 'b'}  -- of a host that is watched

  local function load_host(name, adaptive)
    local values = call('HMGET', HOST(name), 'r', 'f', 'u', 's', 'p', 'why', 'b', 'c', 'w', 'n')
    local host = {why = values[6] or nil, b = values[7] or nil, gap = 0, drain = 0}
    host.pair = naming.split_pair(name) ~= nil
    for i = 1, 5 do host[KEPT[i]] = tonumber(values[i]) or 0 end
    if adaptive or values[8] then host.pace = pace.load_pace(values[8]) end
    host.bound = tonumber(values[9]) or 0
    host.next_time = tonumber(values[10]) or 0
    return host
  end

  local function save_host(name, host, before)
    local set, gone = {}, {}
    for _, field in ipairs(KEPT) do
      local value = host[field]
      if value ~= before[field] then
        if not value or value == 0 then gone[#gone + 1] = field
        else
          set[#set + 1] = field
          set[#set + 1] = type(value) == 'number' and integer(value) or value
        end
      end
    end
    if host.pace then
      for _, pair in ipairs({{'g', string.format('%.3f', pace.gap_of(host.pace))}, {'c', pace.pack_pace(host.pace)},
        {'w', integer(host.bound)}}) do
        set[#set + 1], set[#set + 2] = pair[1], pair[2]
      end
    end
    local next_time = math.max(host.next_time, host.drain > 0 and now_ms() + host.drain or 0)
    if next_time > host.next_time then
      set[#set + 1], set[#set + 2] = 'n', integer(math.ceil(next_time))
    end
    if host.r > now_ms() or host.p > 0 then set[#set + 1], set[#set + 2] = 'x', 1 end
    if #set > 0 then call('HSET', HOST(name), unpack(set)) end
    if #gone > 0 then call('HDEL', HOST(name), unpack(gone)) end
  end

  return load_host, save_host, KEPT
end

-- Returns hear_host(name, signals).
local function define_hearing()
  local pace = pace_rules()
  local load_host, save_host, KEPT = define_records()

  local function is_watched(host) return host.f > 0 or host.u > 0 or host.p > 0 or host.b ~= nil end

  local function hear_host(name, signals)
    local adaptive = false
    for _, signal in ipairs(signals) do adaptive = adaptive or signal[4] end
    local host = load_host(name, adaptive)
    local before = {}
    for _, field in ipairs(KEPT) do before[field] = host[field] end
    for _, signal in ipairs(signals) do
      local kind, ms, delay, auto = unpack(signal)
      host.gap = delay
      pace.hear(host, kind, ms, now_ms(), auto and host.bound > 0)
      if auto then host.bound = math.max(0, host.bound - 1) end
    end
    save_host(name, host, before)
    if is_watched(host) ~= is_watched(before) then
      call(is_watched(host) and 'SADD' or 'SREM', WATCHED, name)
    end
    if naming.is_host(name) and (host.r ~= before.r or host.why ~= before.why) then mark_held(name) end
    local later = host.r ~= before.r or host.drain > 0
    if later and call('ZSCORE', HOSTS, name) then bring_back(name) end
  end
  return hear_host
end

-- Its fetches that are not over are counted there from now on, including the reporting fetch.
local function move_host(host, address)
  local old, active = address_of(host), tonumber(call('HGET', HOST(host), 'a')) or 0
  if old == address then return end
  if old then
    delay_from(ADDRESS(old), 0)  -- one of its requests may be unsent, and no report will name that address
    count_at(old, -active)
    if call('ZREM', WAITING(old), host) == 1 then bring_back(host) end
    show_address(old)
  end
  call('HSET', HOST(host), 'ip', address)
  count_at(address, active)
  call('SET', PLACED, 1)
  placing = true
end

local function hear_signals()
  for host, address in pairs(moved) do move_host(host, address) end
  moved = {}
  for _, signal in ipairs(through) do hear_proxy(unpack(signal)) end
  through = {}
  local names = {}
  for name in pairs(told) do names[#names + 1] = name end
  if #names == 0 then return end
  local hear_host
  local watched = call('SMISMEMBER', WATCHED, unpack(names))
  for i, name in ipairs(names) do
    local matters = watched[i] == 1
    for _, signal in ipairs(told[name]) do
      matters = matters or signal[1] ~= KINDS.ANSWERED or signal[4]
    end
    if matters then
      hear_host = hear_host or define_hearing()
      hear_host(name, told[name])
    end
  end
  told = {}
end
