-- In place of redis.call, for a script that runs on two servers. The script's last argument is the time.
-- Whatever Redis leaves open is fixed: the order of sets, hashes and tables, and random choices. Keys of scripts
-- expire later than they say, as a server has a clock of its own.
(function()
  local second, micro = string.match(table.remove(ARGV), '^(%d+) (%d+)$')
  local now, later = second * 1000 + math.floor(micro / 1000), 1e12  -- ms
  local function sorted_list(list) table.sort(list) return list end
  local function first_of(list, count)
    if not count then return list[1] or false end
    local chosen = {}
    for i = 1, math.min(tonumber(count), #list) do chosen[i] = list[i] end
    return chosen
  end
  local function in_pairs(list)
    local names, values, sorted = {}, {}, {}
    for i = 1, #list, 2 do names[#names + 1], values[list[i]] = list[i], list[i + 1] end
    for _, name in ipairs(sorted_list(names)) do
      sorted[#sorted + 1], sorted[#sorted + 2] = name, values[name]
    end
    return sorted
  end
  local function scanned(name, key, ...)
    local found, cursor, step = {}, '0', nil
    local rest = {...}
    if key then table.remove(rest, 1) end
    repeat
      if key then step = redis.call(name, key, cursor, unpack(rest))
      else step = redis.call(name, cursor, unpack(rest, 2)) end
      cursor = step[1]
      for _, one in ipairs(step[2]) do found[#found + 1] = one end
    until cursor == '0'
    return {'0', (name == 'HSCAN' or name == 'ZSCAN') and in_pairs(found) or sorted_list(found)}
  end
  local fixed = {
    TIME = function() return {second, micro} end,
    SMEMBERS = function(key) return sorted_list(redis.call('SMEMBERS', key)) end,
    KEYS = function(glob) return sorted_list(redis.call('KEYS', glob)) end,
    HKEYS = function(key) return sorted_list(redis.call('HKEYS', key)) end,
    HGETALL = function(key) return in_pairs(redis.call('HGETALL', key)) end,
    SRANDMEMBER = function(key, n) return first_of(sorted_list(redis.call('SMEMBERS', key)), n) end,
    HRANDFIELD = function(key, n) return first_of(sorted_list(redis.call('HKEYS', key)), n) end,
    SPOP = function(key, n)
      local found = first_of(sorted_list(redis.call('SMEMBERS', key)), n)
      if type(found) == 'string' then redis.call('SREM', key, found)
      elseif found and #found > 0 then redis.call('SREM', key, unpack(found)) end
      return found
    end,
    SCAN = function(...) return scanned('SCAN', nil, ...) end,
    HSCAN = function(key, ...) return scanned('HSCAN', key, ...) end,
    ZSCAN = function(key, ...) return scanned('ZSCAN', key, ...) end,
    PEXPIREAT = function(key, at)
      if tonumber(at) <= now then return redis.call('PEXPIREAT', key, at) end
      return redis.call('PEXPIREAT', key, string.format('%.0f', at + later))
    end,
    PEXPIRE = function(key, ms)
      return redis.call('PEXPIREAT', key, string.format('%.0f', now + ms + later))
    end,
    PTTL = function(key)
      local left = redis.call('PTTL', key)
      return left < 0 and left or 1000
    end,
    SET = function(key, value, ...)
      local words = {...}
      for i = 1, #words - 1 do
        if words[i] == 'EX' or words[i] == 'PX' then
          local ms = words[i] == 'EX' and 1000 * words[i + 1] or words[i + 1]
          words[i], words[i + 1] = 'PXAT', string.format('%.0f', now + ms + later)
        end
      end
      return redis.call('SET', key, value, unpack(words))
    end,
  }
  function fixed.PAIRS(t)
    local keys, i = {}, 0
    for key in next, t do keys[#keys + 1] = key end
    table.sort(keys, function(a, b)
      if type(a) ~= type(b) then return type(a) < type(b) end
      return a < b
    end)
    return function()
      i = i + 1
      if keys[i] ~= nil then return keys[i], t[keys[i]] end
    end
  end
  return function(name, ...)
    if fixed[name] then return fixed[name](...) end
    return redis.call(name, ...)
  end
end)()
