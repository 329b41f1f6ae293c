-- window: the first time from `at` on (ms) in a time of day. numbers: minutes at which it opens and closes, offset of
-- local time (s), and for each change of it the time (s) and the new offset, as crawlframe/gates/window.py writes them.
function rules.window(numbers, at)
  local DAY = 86400000
  local opens, length = 60000 * numbers[1], 60000 * (numbers[2] - numbers[1]) % DAY
  for i = 3, #numbers, 2 do
    local ends = numbers[i + 1] and 1000 * numbers[i + 1] or math.huge
    if at < ends then
      local since = (at + 1000 * numbers[i] - opens) % DAY
      if since < length or length == 0 then return at end
      if at + DAY - since < ends then return at + DAY - since end
      at = ends
    end
  end
end
