-- announce: publish the revision that nodes which follow a branch must run. Of partition 0 only.
-- ARGV[1] the rollout as JSON; ARGV[2] branch; ARGV[3...] names of nodes, none = all
-- Returns: the id of the rollout, Redis time in microseconds, later than any before. If it is sent
--          twice, the second id counts.
local time = call('TIME')
local id = time[1] * 1000000 + time[2]
local fields = call('HGETALL', ROLLOUT)
local head = ARGV[2] .. ':'
for i = 1, #fields, 2 do
  id = math.max(id, (tonumber(string.match(fields[i + 1], '^%d+')) or 0) + 1)
  if #ARGV == 2 and string.sub(fields[i], 1, #head) == head then call('HDEL', ROLLOUT, fields[i]) end
end
local row = integer(id) .. '|' .. ARGV[1]
if #ARGV == 2 then call('HSET', ROLLOUT, head, row) end
for i = 3, #ARGV do call('HSET', ROLLOUT, head .. ARGV[i], row) end
return integer(id)
