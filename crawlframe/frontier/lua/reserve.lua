-- reserve: which request fetches a page that several tasks want.
-- ARGV[1] msgpack list of {key of the page, rid, ms for which it is reserved; 0: it is no longer}
-- Returns: for each, 0 if the page is reserved for the rid, otherwise the ms for which another request has it.
local answers = {}
for i, entry in ipairs(cmsgpack.unpack(ARGV[1])) do
  local key, rid, ms = RESERVED(entry[1]), entry[2], tonumber(entry[3])
  local since, holder = string.match(call('GET', key) or '', '^(%d+) (.*)$')
  local mine = not holder or holder == rid
  if mine and ms > 0 then
    call('SET', key, integer(now_ms()) .. ' ' .. rid, 'PX', ms)
  elseif mine then
    call('DEL', key)
  end
  answers[i] = mine and 0 or math.max(1, now_ms() - tonumber(since))
end
return answers
