-- Stands before every verb that writes. Its last argument is "<era> <client> <n>": the era that the
-- caller knows, its name, and the number of its last call that was answered. When Redis knows of fewer
-- calls it has lost something (an older copy, a replica that was behind), and with it perhaps more.
-- Errors ERA, LOST.
local PULSE_LASTS = 600  -- seconds; a client that was silent for half of it begins at 0 again

local era, state = read_era()
local known_era, client, calls = string.match(table.remove(ARGV), '^(%d+) (%w+) (%d+)$')
calls = tonumber(calls)
if era ~= known_era then return redis.error_reply('ERA it is ' .. era .. ' now, not ' .. known_era) end
if calls > 0 and (tonumber(call('GET', PULSE(client))) or 0) < calls then
  return redis.error_reply('LOST what ' .. client .. ' was told is done')
end

local function keep_pulse()
  call('SET', PULSE(client), integer(calls + 1), 'EX', PULSE_LASTS)
end

local function closed()
  if state ~= 'open' then return redis.error_reply('ERA ' .. era .. ' is ' .. state) end
end
