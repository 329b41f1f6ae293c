-- near_end: pages about which near has answered are settled.
-- ARGV[1] name of the store
-- ARGV[2] msgpack list of {head, 1 if the page is not to be remembered, or 0}
-- Returns: 1.
local RECORD, CHUNK, HEAD = 21, 194, 7  -- as in near.lua
local name = ARGV[1]
for _, page in ipairs(cmsgpack.unpack(ARGV[2])) do
  local head, withdrawn = unpack(page)
  if withdrawn == 1 then
    local number = tonumber(string.match(call('HGET', NEAR_ASKED(name), head) or '', '^f(%d+) '))
    if number then
      local key, at = NEAR_PAGES(name .. ':' .. math.floor((number - 1) / CHUNK)), (number - 1) % CHUNK * RECORD
      if call('GETRANGE', key, at, at + HEAD - 1) == head then
        call('SETRANGE', key, at, string.rep('\0', RECORD))  -- which is like no page
      end
    end
  end
  call('HDEL', NEAR_ASKED(name), head)
end
return 1
