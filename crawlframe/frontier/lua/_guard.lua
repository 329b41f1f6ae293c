-- Runs before every verb that writes. Its last argument is "<era> <client> <last> <this>": the era
-- that the caller knows, its name, and the numbers of its last answered call and of this one.
-- If Redis knows only of earlier calls, it has lost writes (an older copy, a replica that was
-- behind), perhaps others too.
-- Errors ERA, LOST.
local CALL_LOG_LASTS = 600  -- seconds; a client that was silent for half of it counts no call as answered

local era, state = read_era()
local known_era, client, answered, number = string.match(table.remove(ARGV), '^(%d+) (%w+) (%d+) (%d+)$')
answered = tonumber(answered)
if era ~= known_era then return redis.error_reply('ERA is now ' .. era .. ', not ' .. known_era) end
do
  local heard = tonumber(call('GET', CALL_LOG(client))) or 0
  if heard < answered then return redis.error_reply('LOST calls of ' .. client .. ' that were answered') end
  number = integer(math.max(heard, tonumber(number)))  -- it may arrive late, after later ones
end

local function keep_pulse()
  call('SET', CALL_LOG(client), number, 'EX', CALL_LOG_LASTS)
end

local function closed()
  if state ~= 'open' then return redis.error_reply('ERA ' .. era .. ' is ' .. state) end
end
