-- learn: adds lessons of a spider's pages about the templates that need the browser.
-- ARGV[1] spider; ARGV[2] name of this call: one that is repeated teaches nothing more
-- ARGV[3] msgpack list of {callback and template, lesson, 1 if the page had items or 0}; the lessons are as in
--         crawlframe/render/knowledge.py
-- Returns: 1.
local NEEDED = 8  -- as in knowledge.py
local MOST, FEWER = 500, 450  -- templates of a spider; above MOST, the last used are kept
local LIFE = 14 * 24 * 3600000  -- ms, as in knowledge.py
local STATIC, BROWSER, VAIN, STREAK, SKIPPED, ITEMS, BARE, ACCEPTED, SINCE, USED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local key, now, rows = RENDER(ARGV[1]), now_ms(), {}

local function numbers_of(text)
  local row = {}
  for number in string.gmatch(text, '%d+') do row[#row + 1] = tonumber(number) end
  if #row == 10 then return row end
end

local function load_row(field)
  local numbers, name = string.match(call('HGET', key, field) or '', '^([%d,]+) (%w+)$')
  local row = numbers and numbers_of(numbers)
  if name == ARGV[2] then return false end
  if not row or row[USED] < now - LIFE then row = {0, 0, 0, 0, 0, 0, 0, 0, now, now} end
  return row
end

local function learn(row, lesson, items)
  local rendered = row[STREAK] >= NEEDED
  if lesson == 'static' then
    row[STATIC], row[STREAK], row[SKIPPED] = row[STATIC] + 1, 0, 0
  elseif lesson == 'bare' then
    row[STATIC], row[ACCEPTED] = row[STATIC] + 1, row[ACCEPTED] + 1
  else
    row[BROWSER] = row[BROWSER] + 1
    row[SKIPPED] = lesson == 'direct' and row[SKIPPED] + 1 or 0
    if lesson == 'needed' then row[STREAK], row[BARE], row[ACCEPTED] = row[STREAK] + 1, 0, 0 end
    if lesson == 'vain' or lesson == 'bare vain' then row[VAIN] = row[VAIN] + 1 end
    if lesson == 'bare vain' then row[BARE], row[ACCEPTED] = row[BARE] + 1, 0 end
  end
  if items == 1 then row[ITEMS] = 1 end
  if rendered ~= (row[STREAK] >= NEEDED) then row[SINCE] = now end
  row[USED] = now
end

for _, entry in ipairs(cmsgpack.unpack(ARGV[3])) do
  local field, lesson, items = unpack(entry)
  if rows[field] == nil then rows[field] = load_row(field) end
  if rows[field] then learn(rows[field], lesson, items) end
end
for field, row in pairs(rows) do
  if row then
    call('HSET', key, field, table.concat(row, ',') .. ' ' .. ARGV[2])
  end
end
if call('HLEN', key) > MOST then
  local flat, used = call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    local row = numbers_of(string.match(flat[i + 1], '^[%d,]+') or '')
    used[#used + 1] = {flat[i], row and row[USED] or 0}
  end
  table.sort(used, function(one, other) return one[2] < other[2] end)
  for i = 1, #used - FEWER do call('HDEL', key, used[i][1]) end
end
call('PEXPIRE', key, LIFE)
return 1
