-- known: look up which fingerprints have been admitted (read only).
-- ARGV[1] msgpack list of {task, {fingerprint, ...}, {hash of each, ...}}
-- Returns: a string of 0 and 1, one per fingerprint in order.
local marks, n = {}, 0
for _, group in ipairs(cmsgpack.unpack(ARGV[1])) do
  local task, fingerprints, hashes = task_of(group[1]), group[2], group[3]
  for i = 1, #fingerprints do
    n = n + 1
    if task and call('SISMEMBER', bucket_of(task, hashes[i]), fingerprints[i]) == 1 then marks[n] = '1'
    else marks[n] = '0' end
  end
end
return table.concat(marks)
