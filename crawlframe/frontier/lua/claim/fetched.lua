-- Fetches that are over, or have begun: their slots are free again before anything is claimed.
local function end_fetches(over)
  if #over == 0 then return end
  keep_pulse()
  local rids, told, freed, marked = {}, {}, {}, {}
  for i = 1, #over, 5 do rids[#rids + 1] = over[i] end
  for i, own in ipairs(call('HMGET', OWN, unpack(rids))) do
    local holder, lane, hold = split_own(own or '|')
    local place = 5 * i
    local proxy
    proxy, hold = naming.split_hold(hold or '')
    if holder == generation and hold == '.' .. over[place - 3] and not told[rids[i]] then
      local id, _, host = split_lane(lane)
      if over[place - 2] == KINDS.SENT then
        note_sent(host, over[place - 1], rids[i], proxy)
      else
        told[rids[i]] = true
        freed[host] = (freed[host] or 0) + 1
        if proxy then left_pairs[#left_pairs + 1] = {host, proxy} end
        note_signal(id, host, over[place - 2], over[place - 1], over[place], proxy, rids[i])
        marked[#marked + 1] = rids[i]
        marked[#marked + 1] = generation .. naming.hold_after(over[place - 3]) .. '|' .. lane
      end
    end
  end
  if #marked > 0 then call('HSET', OWN, unpack(marked)) end
  hear_signals()
  free_slots(freed)
end

end_fetches(cmsgpack.unpack(ARGV[4]))
