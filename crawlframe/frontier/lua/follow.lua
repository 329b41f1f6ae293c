-- follow: which request fetches the target of a redirect: the request that was redirected, if the task has
-- not admitted the target, and no other one is there.
-- ARGV[1] msgpack list of {task, rid, rid of the target, its fingerprint, hash of that, ms for which the target is
--         reserved; 0: the request has finished there, as its row says; -1: it ends otherwise, target left by the rid}
-- Returns: for each, 0 if the request may go there; -1 if the task has admitted it; otherwise the ms for which
--         another request has had it. Of one that has finished, 1 if the target waits as a request of its own.
local LEFT_FOR = 3600000  -- ms for which a request may redirect to one that has ended as its duplicate
local answers = {}

local function holder_of(target)
  return string.match(call('GET', RESERVED(target)) or '', '^(%d+) (.*)$')
end

local function release(target, rid)
  local _, holder = holder_of(target)
  if holder == rid then call('DEL', RESERVED(target)) end
end

for i, entry in ipairs(cmsgpack.unpack(ARGV[1])) do
  local id, rid, target, fingerprint, hash, ms, left = unpack(entry)
  local task = task_of(id)
  answers[i] = 0
  if left ~= '' then release(left, rid) end
  if not task or ms <= 0 then
    release(target, rid)
    if task and ms == 0 and not mark_seen(task, fingerprint, hash) then
      answers[i] = call('HEXISTS', REQ, target)
    end
  else
    local since, holder = holder_of(target)
    local seen = call('SISMEMBER', bucket_of(task, hash), fingerprint) == 1
    if seen and holder == rid then
      answers[i] = 0  -- that one was redirected here, and left its page to this one: perhaps over a cookie
    elseif seen then
      answers[i] = -1
      if call('HEXISTS', REQ, target) == 1 then
        call('SET', RESERVED(rid), integer(now_ms()) .. ' ' .. target, 'PX', LEFT_FOR)
      end
    elseif holder and holder ~= rid then
      answers[i] = math.max(1, now_ms() - tonumber(since))
    else
      call('SET', RESERVED(target), integer(now_ms()) .. ' ' .. rid, 'PX', ms)
      if not task.led then call('HSET', TASK(id), 'led', 1) end
    end
  end
end
save_tasks()
return answers
