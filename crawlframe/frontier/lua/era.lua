-- era: mark the data in this partition as doubted, being rebuilt from the database, or complete.
-- KEYS[1] tag of the partition
-- ARGV[1] number of the era
-- ARGV[2] "doubted": the current era, if it is open; "closed": a later era begins, or the current one
--         again; "open": the current era
-- Returns: 1 if it is in that state now. Error ERA when another era is current.
local number, state = read_era()
local ahead = tonumber(ARGV[1]) - tonumber(number)
local fits = ahead == 0 and (ARGV[2] ~= 'doubted' or state == 'open') or ahead > 0 and ARGV[2] == 'closed'
if fits then call('SET', ERA, ARGV[1] .. ' ' .. ARGV[2]) end
if fits or ahead == 0 then return 1 end
return redis.error_reply('ERA is now ' .. number .. ', not ' .. ARGV[1])
