-- claim: free the slots of hosts whose fetches are over, and give a generation up to n requests of
-- due hosts that have free slots.
-- ARGV[1] generation; ARGV[2] sequence number of this claim; ARGV[3] n
-- ARGV[4] msgpack {rid, sequence number of the claim that returned it, kind, ms and address of the signal, ...}:
--         requests whose fetch is over, or, of the kind SENT, has begun so many ms ago; at most 500. They stay with the generation
--         until they are settled. Those it does not hold by that claim, or has reported before, are left alone.
-- ARGV[5] msgpack {task, free slots of its worker, ...}: tasks that run in one worker, which this generation serves
-- ARGV[6] 1 when this generation takes part in affinity, else 0
-- Returns: {wait ms until something more is due (0: at once, -1: nothing is waiting for a time),
--          {task, state, cookie version, ...}, {rid, lane, record, tries or nil, ...}, {rid, kills, ...}, {rid, refusals, ...},
--          {rid whose host has no address yet, although its task limits requests per address, ...},
--          {rid, microseconds until it may be sent, ...}: requests to be reported when they have been sent,
--          {task that runs in one worker and is due, but is not in ARGV[5], and that no other generation serves, ...},
--          {rid, id of the proxy of the pool that it goes through, ...}}
-- Repeated with the same sequence number, it returns the same batch. It counts as a change in the
-- call log when it reports fetches or returns requests. Errors FENCED, ERA when the era is not open.
local refusal = closed()
if refusal then return refusal end
local generation, sequence, want = ARGV[1], ARGV[2], tonumber(ARGV[3])
if call('SISMEMBER', FENCED, generation) == 1 then
  return redis.error_reply('FENCED generation ' .. generation .. ' was declared dead')
end
local now = now_ms()

-- Each part is a block of its own, as a script may have 200 locals; they define this for each other.
local answer, take_lane, in_turn, serves, take, show_hosts
local define = {}  -- part -> function that defines names that many claims do without
local affinity = {hungry = {}}  -- generation -> whether it has asked for more

local LEFT = 20  -- ms after which a claim that left requests to others comes back for them
local poorer, left = 0, 0  -- number of generations to which one is left, and of requests left to them

local rids, lanes, found = {}, {}, {}  -- the claimed requests, with their lanes and records
local owners, hold = {}, generation .. '.' .. sequence .. '|'
local spaced = {}  -- rid, when it may be sent, ...: of hosts or addresses with a delay
local routed = {}  -- rid, id of its proxy, ...: through the pool

-- Tasks that run in one worker: the free slots of the tasks that this generation serves, and the tasks that it may serve.
local rooms, unserved = {}, {}
if #ARGV[5] > 1 then
  local listed = cmsgpack.unpack(ARGV[5])
  for i = 1, #listed, 2 do rooms[listed[i]] = listed[i + 1] end
end
