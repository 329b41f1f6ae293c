-- era: mark the data in this partition as doubted, or as being rebuilt from the database.
-- ARGV[1] number of the era; of no account for "doubted"
-- ARGV[2] "doubted": the current era, if it is open; "closed": a later era starts, or the current one
--         again
-- Returns: 1. Error ERA when a later one is current.
if ARGV[2] == 'doubted' then
  doubt()
  return 1
end
local number = read_era()
if tonumber(ARGV[1]) < tonumber(number) then
  return redis.error_reply('ERA is now ' .. number .. ', not ' .. ARGV[1])
end
call('SET', ERA, ARGV[1] .. ' ' .. ARGV[2])
return 1
