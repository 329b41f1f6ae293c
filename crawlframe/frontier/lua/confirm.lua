-- confirm: check that Redis still has all calls of this client that it answered.
-- ARGV[1] "open": if so, the era opens that this client has filled; "" does nothing more
-- Returns: 1. Errors ERA, LOST.
if ARGV[1] == 'open' and state ~= 'open' then
  if state ~= 'closed' then return closed() end
  call('SET', ERA, era .. ' open')
end
return 1
