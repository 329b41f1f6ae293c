-- lease: extend the lease of a generation, in milliseconds from now.
-- ARGV[1] generation; ARGV[2] milliseconds
-- Returns: 1. Errors FENCED when it was declared dead, ERA when the era is not open.
local refusal = closed()
if refusal then return refusal end
if call('SISMEMBER', FENCED, ARGV[1]) == 1 then
  return redis.error_reply('FENCED generation ' .. ARGV[1] .. ' was declared dead')
end
call('ZADD', GENERATIONS, integer(now_ms() + ARGV[2]), ARGV[1])
return 1
