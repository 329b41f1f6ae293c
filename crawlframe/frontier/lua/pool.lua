-- pool: publishes the proxies of the pool, in place of earlier ones.
-- ARGV[1] version: names this state of the pool; ARGV[2] msgpack list of {id, requests in flight at most (0: no
--         limit), life, tier, country, tag, ...}; one that was out comes back with another life
-- Returns: 1, or 0 if this version is there already.
if call('GET', POOL_VERSION) == ARGV[1] then return 0 end
local kept = {}
for _, proxy in ipairs(cmsgpack.unpack(ARGV[2])) do
  local id, most, life = tostring(proxy[1]), proxy[2], tostring(proxy[3])
  kept[id] = true
  call('HSET', POOL, id, cmsgpack.pack({unpack(proxy, 4)}))
  if call('HGET', PROXY(id), 'life') ~= life then
    call('HDEL', PROXY(id), 'f', 'fh', 'ok')
    call('SREM', OUT, id)
  end
  call('HSET', PROXY(id), 'm', most, 'life', life)
  call('PERSIST', PROXY(id))
end
for _, id in ipairs(call('HKEYS', POOL)) do
  if not kept[id] then
    call('HDEL', POOL, id)
    call('SREM', OUT, id)
    call('PEXPIRE', PROXY(id), REMEMBERED)  -- requests may still be in flight
  end
end
call('DEL', RINGS)
call('SET', POOL_VERSION, ARGV[1])
return 1
