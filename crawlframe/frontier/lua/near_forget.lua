-- near_forget: removes a store of near, 300 keys per call.
-- ARGV[1] name of the store
-- Returns: 1 when all is gone, 0 to be called again.
local CHUNK, MOST = 194, 300  -- CHUNK as in near.lua
local name = ARGV[1]
local state = call('HMGET', NEAR(name), 'pages', 'limit', 'buckets')
local records = math.min(tonumber(state[1]) or 0, tonumber(state[2]) or 0)
local buckets = tonumber(state[3]) or 0
local keys = {}
while buckets > 0 and #keys < MOST do
  buckets = buckets - 1
  keys[#keys + 1] = NEAR_INDEX(name .. ':' .. buckets)
end
local chunks = math.ceil(records / CHUNK)
while chunks > 0 and #keys < MOST do
  chunks = chunks - 1
  keys[#keys + 1] = NEAR_PAGES(name .. ':' .. chunks)
end
if #keys > 0 then call('UNLINK', unpack(keys)) end
if buckets + chunks > 0 then
  call('HSET', NEAR(name), 'buckets', buckets, 'pages', chunks * CHUNK)
  return 0
end
call('UNLINK', NEAR(name), NEAR_ASKED(name))
return 1
