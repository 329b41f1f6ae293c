-- leases: every generation that was not replayed yet, with the rest of its lease (read only).
-- Returns: {generation, milliseconds left (negative: expired), ...}
local now, all = now_ms(), call('ZRANGE', GENERATIONS, 0, -1, 'WITHSCORES')
for i = 2, #all, 2 do all[i] = math.floor(all[i] - now) end
return all
