-- The library that scripts see, and the runner that calls them.
-- Arguments: the Python functions of engine.py, and the shape of each command's reply.
local execute, message_of, sha1hex, pack_number, pack_head, unpack_double, shapes, most_results = ...
collectgarbage("setpause", 400)
local byte, sub, char, floor, ceil = string.byte, string.sub, string.char, math.floor, math.ceil

local redis = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  log = function() end,
  sha1hex = function(text) return sha1hex(tostring(text)) end,
  error_reply = function(text) return {err = (string.gsub(text, '^%-', ''))} end,
  status_reply = function(text) return {ok = text} end,
}

-- A reply of very many values arrives as one Python list.
local function listed(...)
  local first = ...
  if type(first) ~= 'userdata' then return {...} end
  local list = {}
  for value in python.iter(first) do list[#list + 1] = value end
  return list
end

function redis.call(name, ...)
  local shape = shapes[name] or shapes[string.upper(name)]
  if shape == 'value' then return execute(name, ...) end
  if shape == 'list' then return listed(execute(name, ...)) end
  if shape == 'counted' and select('#', ...) > 1 then
    local list = listed(execute(name, ...))
    return list[1] ~= false and list
  end
  if shape == 'page' then
    local cursor, names = execute(name, ...)
    return {cursor, listed(names)}
  end
  local reply = execute(name, ...)
  if shape == 'status' and reply then return {ok = reply} end
  return reply
end

function redis.pcall(...)
  local done, reply = pcall(redis.call, ...)
  if done then return reply end
  return {err = message_of(reply)}
end

-- Tables have no order of their own: `pairs` is sorted, so that a run can be repeated.
local function before(a, b)
  local kind, other = type(a), type(b)
  if kind ~= other then return kind < other end
  return a < b
end

local function sorted_pairs(t)
  local keys, n, i = {}, 0, 0
  for key in next, t do n = n + 1; keys[n] = key end
  if n > 1 then table.sort(keys, before) end
  return function()
    while i < n do
      i = i + 1
      local value = t[keys[i]]
      if value ~= nil then return keys[i], value end
    end
  end
end

-- cmsgpack ----------------------------------------------------------------------------------------
local data, at  -- the input of unpack

local function bytes(n)
  local from = at
  at = at + n
  if at > #data + 1 then error('Missing bytes in input.', 0) end
  return sub(data, from, at - 1)
end

local function whole(n, signed)
  local read = bytes(n)
  local value = byte(read)
  if signed and value >= 128 then value = value - 256 end
  for i = 2, n do value = 256 * value + byte(read, i) end
  return value
end

local decode

local function array(n)
  local list = {}
  for i = 1, n do list[i] = decode() end
  return list
end

local function map(n)
  local found = {}
  for _ = 1, n do
    local key = decode()
    found[key] = decode()
  end
  return found
end

function decode()
  local kind = byte(data, at)
  if not kind then error('Missing bytes in input.', 0) end
  at = at + 1
  if kind < 0x80 then return kind
  elseif kind < 0x90 then return map(kind % 16)
  elseif kind < 0xa0 then return array(kind % 16)
  elseif kind < 0xc0 then return bytes(kind % 32)
  elseif kind >= 0xe0 then return kind - 256
  elseif kind >= 0xde then return map(whole(2 ^ (kind - 0xdd)))
  elseif kind >= 0xdc then return array(whole(2 ^ (kind - 0xdb)))
  elseif kind >= 0xd9 then return bytes(whole(2 ^ (kind - 0xd9)))
  elseif kind >= 0xcc and kind < 0xd4 then return whole(2 ^ (kind % 4), kind >= 0xd0)
  elseif kind == 0xca then return unpack_double(bytes(4))
  elseif kind == 0xcb then return unpack_double(bytes(8))
  elseif kind == 0xc0 then return nil
  elseif kind == 0xc2 or kind == 0xc3 then return kind == 0xc3
  end
  error('Bad data format in input.', 0)
end

local function encode(value, out)
  local kind, n = type(value), #out + 1
  if kind == 'string' then out[n] = pack_head(false, #value) .. value
  elseif kind == 'number' then out[n] = value >= 0 and value < 128 and value % 1 == 0 and char(value) or pack_number(value)
  elseif kind == 'boolean' then out[n] = value and '\195' or '\194'
  elseif kind == 'nil' then out[n] = '\192'
  else
    if #value == 0 and next(value) ~= nil then error('only arrays are packed here') end
    out[n] = pack_head(true, #value)
    for i = 1, #value do encode(value[i], out) end
  end
end

local cmsgpack = {}

function cmsgpack.pack(value)
  local out = {}
  encode(value, out)
  return table.concat(out)
end

function cmsgpack.unpack(text)
  data, at = text, 1
  local values, n = {}, 0
  while at <= #data do
    n = n + 1
    values[n] = decode()
  end
  return unpack(values, 1, n)
end

-- Running -----------------------------------------------------------------------------------------
local library = {redis = redis, cmsgpack = cmsgpack, bit = bit, pairs = sorted_pairs}
for _, name in ipairs({'assert', 'error', 'ipairs', 'math', 'next', 'pcall', 'select', 'string', 'table', 'tonumber',
  'tostring', 'type', 'unpack'}) do
  library[name] = _G[name]
end
math.random, math.randomseed = nil, nil

-- Each script has its own globals, as engine.py makes globals of its outermost locals.
local function load(text)
  local script, problem = loadstring(text, '@user_script')
  if not script then return nil, problem end
  local globals = {}
  for name, value in next, library do globals[name] = value end
  return setfenv(script, globals), globals
end

-- Writes a result into a flat list: a table as true, its length and its items; an error as true, -1 and
-- its text; a status as true, -2 and its text.
local function flatten(value, out, n)
  local kind = type(value)
  if kind == 'string' then out[n + 1] = value
  elseif kind == 'number' then
    local fits = value >= -2 ^ 63 and value < 2 ^ 63
    out[n + 1] = not fits and -2 ^ 63 or value < 0 and ceil(value) or floor(value)
  elseif kind == 'table' then
    out[n + 1] = true
    if value.err or value.ok then
      out[n + 2], out[n + 3] = value.err and -1 or -2, value.err or value.ok
      return n + 3
    end
    local place, i = n + 2, 0
    n = place
    while value[i + 1] ~= nil do
      i = i + 1
      n = flatten(value[i], out, n)
    end
    out[place] = i
    return n
  else out[n + 1] = value == true and 1 end
  return n + 1
end

local function run(script, globals, keys, ...)
  if keys == 1 then globals.KEYS, globals.ARGV = {(...)}, {select(2, ...)}
  else
    local all = {...}
    globals.KEYS, globals.ARGV = {unpack(all, 1, keys)}, {unpack(all, keys + 1)}
  end
  local out = {}
  local n = flatten(script(), out, 0)
  if n <= most_results then return unpack(out, 1, n) end
  return out
end

return load, run
