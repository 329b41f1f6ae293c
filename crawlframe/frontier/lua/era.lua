-- era: what this partition holds is doubted, is made anew from the database, or is whole.
-- KEYS[1] tag of the partition
-- ARGV[1] number of the era
-- ARGV[2] "doubted": the era that it is, if it is open; "closed": a later one begins, or this one once
--         more; "open": the era that it is
-- Answer: 1 if it is so now. Error ERA when it is another one.
local number, state = read_era()
local ahead = tonumber(ARGV[1]) - tonumber(number)
local fits = ahead == 0 and (ARGV[2] ~= 'doubted' or state == 'open') or ahead > 0 and ARGV[2] == 'closed'
if fits then call('SET', ERA, ARGV[1] .. ' ' .. ARGV[2]) end
if fits or ahead == 0 then return 1 end
return redis.error_reply('ERA it is ' .. number .. ' now, not ' .. ARGV[1])
