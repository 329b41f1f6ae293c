-- known: which fingerprints have been admitted (read only).
-- KEYS[1] tag of the partition
-- ARGV[1] msgpack list of {task, {fingerprint, ...}}
-- Answer: a string of 0 and 1, one per fingerprint in order.
local marks = {}
for _, group in ipairs(cmsgpack.unpack(ARGV[1])) do
  local task = task_of(group[1])
  for _, fingerprint in ipairs(group[2]) do
    marks[#marks + 1] = task and is_seen(task, fingerprint) or 0
  end
end
return table.concat(marks)
