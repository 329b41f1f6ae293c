-- near: looks for pages with nearly the same texts as these pages, and remembers the pages that have
-- none. A page that is asked for again gets the same answer, until it is settled by near_end.
-- ARGV[1] name of a store; ARGV[2] task to which it belongs, or empty: it belongs to none
-- ARGV[3] pages that are remembered; ARGV[4] ms for which the last writes of a store without a task stay
-- ARGV[5] most differing bits in the signatures of two pages that are nearly the same
-- ARGV[6] msgpack list of {head, features, signature, URL}: head of a page: 4 bytes of its rid, 3 of its identity, the
--         same in all tasks; features: 4 bytes each (big endian), first ones first; see crawlframe/near/fingerprint.py
-- Returns: for each page {-1} if it is the first one, otherwise {differing bits of the signatures, head of the
--         page that it is like, its URL if that page is not settled yet, or ''}.
--
-- A store has records of pages, in strings of CHUNK, and an index of features in buckets (linear hashing). An entry is
-- 16 bits of the feature, besides the 7 of the first bucket number, and the number of a record. Strings are written in
-- place; their lengths fill the allocator's blocks.
local STORED = 3  -- features under which a page is found
local COMMON = 8  -- pages from which on a feature, such as one of a template, says nothing about a page
local RECORD, CHUNK = 21, 194  -- bytes; records: 4,074 bytes, with a header of 6 in 4,096
local HEAD = 7  -- bytes of a record that name its page; the first 4 are of its rid
local ENTRY = 5  -- bytes
-- A page that shares features with CROWD pages that are RELATED (bits; of texts without relation, 56 are usual) has a
-- template. Then others are more alike, and texts that are nearly the same, too, because a part of them stays.
local RELATED, CROWD, STRICT = 40, 4, 3 / 4
local LOAD = 320  -- entries of a bucket, on average, from which on the index grows
local FULL, OLDEST = 512, 128  -- entries of a bucket from which on the oldest ones are dropped, and how many
local STEPS = {64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072}

local name, task, limit, lasts = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local most = tonumber(ARGV[5])
local open = task == '' or call('SISMEMBER', TASKS, task) == 1  -- nothing is written of one that has ended
local state = call('HMGET', NEAR(name), 'pages', 'entries', 'buckets', 'limit')
limit = math.max(limit, tonumber(state[4]) or 0)  -- the largest of the stores that share it
local pages, entries, size = tonumber(state[1]) or 0, tonumber(state[2]) or 0, tonumber(state[3]) or 128
local buckets, ones = {}, {}
for n = 0, 255 do
  local left, sum = n, 0
  while left > 0 do
    sum, left = sum + left % 2, math.floor(left / 2)
  end
  ones[n] = sum
end

local function stay(key)
  if task == '' then call('PEXPIRE', key, lasts) end
end

local function bucket_at(n)
  local bucket = buckets[n]
  if not bucket then
    bucket = call('GET', NEAR_INDEX(name .. ':' .. n)) or ''
    buckets[n] = bucket
  end
  return bucket
end

local function level_of()
  local _, exponent = math.frexp(size)
  return 2 ^ (exponent - 1)
end

-- The bucket of a feature, and its 16 bits there.
local function place_of(feature)
  local x, full = feature % 8388608, level_of()
  local n = x % full
  if n < size - full then n = x % (2 * full) end
  local tag = math.floor(x / 128)
  return n, string.char(math.floor(tag / 256), tag % 256)
end

local function number_at(bucket, at)
  local high, middle, low = string.byte(bucket, at, at + 2)
  return high * 65536 + middle * 256 + low
end

-- The records that have a feature.
local function found_at(bucket, tag)
  local found, from = {}, 1
  while true do
    local at = string.find(bucket, tag, from, true)
    if not at then return found end
    local past = (at - 1) % ENTRY
    if past == 0 then
      local number = number_at(bucket, at + 2)
      if number == 0 then return found end  -- free from here on
      found[#found + 1] = number
    end
    from = at + 1
  end
end

local function used_of(bucket)
  local low, high = 0, #bucket / ENTRY
  while low < high do
    local middle = math.floor((low + high) / 2)
    if number_at(bucket, middle * ENTRY + 3) == 0 then high = middle else low = middle + 1 end
  end
  return low
end

local function room_for(count)
  for _, step in ipairs(STEPS) do
    local room = math.floor((step - (step > 256 and 6 or 4)) / ENTRY)
    if room >= count then return room end
  end
  return count
end

-- Writes a bucket whole: so many entries, and room for more.
local function write_bucket(n, text)
  local key = NEAR_INDEX(name .. ':' .. n)
  buckets[n] = nil
  if text == '' then
    call('DEL', key)
  else
    call('SET', key, text .. string.rep('\0', room_for(#text / ENTRY) * ENTRY - #text))
    stay(key)
  end
end

local function add_entry(n, entry)
  local bucket = bucket_at(n)
  local used = used_of(bucket)
  if used * ENTRY < #bucket then
    local key = NEAR_INDEX(name .. ':' .. n)
    call('SETRANGE', key, used * ENTRY, entry)
    stay(key)
    buckets[n] = nil
  elseif used >= FULL then
    write_bucket(n, string.sub(bucket, OLDEST * ENTRY + 1) .. entry)
  else
    write_bucket(n, bucket .. entry)
  end
end

-- Divides one bucket.
local function grow()
  local full = level_of()
  local n = size - full
  local bucket = bucket_at(n)
  local here, there = {}, {}
  for i = 0, used_of(bucket) - 1 do
    local entry = string.sub(bucket, i * ENTRY + 1, (i + 1) * ENTRY)
    local high, low = string.byte(entry, 1, 2)
    local moves = math.floor((high * 256 + low) * 128 / full) % 2 == 1
    local side = moves and there or here
    side[#side + 1] = entry
  end
  size = size + 1
  write_bucket(n, table.concat(here))
  write_bucket(n + full, table.concat(there))
end

local function record_place(number)
  return NEAR_PAGES(name .. ':' .. math.floor((number - 1) / CHUNK)), (number - 1) % CHUNK * RECORD
end

local function distance(record, signature)
  local sum = 0
  for i = 1, #signature do
    sum = sum + ones[bit.bxor(string.byte(record, HEAD + i), string.byte(signature, i))]
  end
  return sum
end

local function remember(head, signature, rare)
  local number = pages % limit + 1
  local key, at = record_place(number)
  if call('EXISTS', key) == 0 then call('SET', key, string.rep('\0', CHUNK * RECORD)) end
  call('SETRANGE', key, at, head .. signature)
  stay(key)
  pages = pages + 1
  local tail = string.char(math.floor(number / 65536), math.floor(number / 256) % 256, number % 256)
  for i = 1, math.min(STORED, #rare) do
    local n, tag = place_of(rare[i][2])
    add_entry(n, tag .. tail)
    if entries < STORED * limit then entries = entries + 1 end
    if entries > LOAD * size and size < 8388608 then grow() end
  end
  return number
end

-- The records that share rare features with a page; and those features, the rarest first.
local function candidates_of(features)
  local shared, rare = {}, {}
  for i = 1, #features, 4 do
    local a, b, c, d = string.byte(features, i, i + 3)
    local feature = ((a * 256 + b) * 256 + c) * 256 + d
    local n, tag = place_of(feature)
    local found = found_at(bucket_at(n), tag)
    if #found < COMMON then
      rare[#rare + 1] = {#found * 100 + #rare, feature}
      for _, number in ipairs(found) do shared[number] = true end
    end
  end
  table.sort(rare, function(one, other) return one[1] < other[1] end)
  return shared, rare
end

-- The head of the record that is like a page, and its bits, or true if it is of the page itself; with the rare features.
local function look(head, features, signature)
  local shared, rare = candidates_of(features)
  local best, bits, crowd = nil, most + 1, 0
  for number in pairs(shared) do
    local key, at = record_place(number)
    local record = call('GETRANGE', key, at, at + RECORD - 1)
    if #record == RECORD then
      local sum = distance(record, signature)
      if sum <= most and string.sub(record, 5, HEAD) == string.sub(head, 5, HEAD) then return nil, true, rare end
      if sum <= RELATED then crowd = crowd + 1 end
      -- Of equal ones the same is taken in whatever order they come.
      local name_of = string.sub(record, 1, HEAD)
      if sum < bits or (sum == bits and best and name_of < best) then best, bits = name_of, sum end
    end
  end
  if bits > (crowd >= CROWD and math.floor(most * STRICT) or most) then best = nil end
  return best, bits, rare
end

local function answer_of(head, features, signature, url)
  local known = call('HGET', NEAR_ASKED(name), head)
  if known then
    if string.sub(known, 1, 1) == 'f' then return {-1} end
    return {tonumber(string.match(known, '^d(%d+) ')), string.match(known, '^d%d+ (.......)'),
      string.match(known, '^d%d+ ....... (.*)$') or ''}
  end
  local other, bits, rare = look(head, features, signature)
  if bits == true or not open then return {-1} end
  if not other then
    local number = remember(head, signature, rare)
    call('HSET', NEAR_ASKED(name), head, 'f' .. number .. ' ' .. url)
    stay(NEAR_ASKED(name))
    return {-1}
  end
  local first = call('HGET', NEAR_ASKED(name), other)
  local where = first and string.match(first, '^f%d+ (.*)$') or ''
  call('HSET', NEAR_ASKED(name), head, 'd' .. bits .. ' ' .. other .. ' ' .. where)
  stay(NEAR_ASKED(name))
  return {bits, other, where}
end

local answers = {}
for i, page in ipairs(cmsgpack.unpack(ARGV[6])) do
  answers[i] = answer_of(unpack(page))
end
if pages > (tonumber(state[1]) or 0) then
  call('HSET', NEAR(name), 'pages', integer(pages), 'entries', integer(entries), 'buckets', integer(size))
  call('HSET', NEAR(name), 'limit', integer(limit))
  stay(NEAR(name))
end
return answers
