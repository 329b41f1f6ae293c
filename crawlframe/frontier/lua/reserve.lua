-- reserve: which request fetches a page that several tasks want.
-- KEYS[1] tag of the partition
-- ARGV[1] msgpack list of {key of the page, rid, ms for which it is reserved; 0: it is no longer}
-- Returns: for each, 1 if the page is reserved for the rid, 0 if another has it.
local answers = {}
for i, entry in ipairs(cmsgpack.unpack(ARGV[1])) do
  local key, rid, ms = RESERVED(entry[1]), entry[2], tonumber(entry[3])
  local holder = call('GET', key)
  local mine = not holder or holder == rid
  if mine and ms > 0 then
    call('SET', key, rid, 'PX', ms)
  elseif mine then
    call('DEL', key)
  end
  answers[i] = mine and 1 or 0
end
return answers
