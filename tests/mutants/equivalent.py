"""Equivalent: mutants that no test can notice, and why."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SAVES = "it saves a call"
NOTHING = "nothing becomes of an empty list; it saves a call"
GATE = "claim asks the gate as well, and puts the host back until then"
PAIRS = "second line: there are as many of both"
FEWER = "batches are only smaller"
UNREAD = "no caller reads the answer, only whether there is an error"
TRUE = "Redis answers true as 1"
RESIZED = "a scan names an entry twice only while Redis resizes its table"

# File -> line -> (changes, why). The changes are named as on the page.
REASONS: dict[str, dict[str, list[tuple[tuple[str, ...], str]]]] = {
    "_shared.lua": {
        "if not clock then": [
            (("always",), "within one script no time passes (in Redis 6.2 some microseconds)")
        ],
        "task = {id = id, dirty = false}": [
            (("false becomes true",), "what was not changed is written back as it was")
        ],
        "if task.dirty then": [(("always",), "what was not changed is written back as it was")],
        "task.dirty = false": [
            (("removed", "false becomes true"), "the same would be written once more")
        ],
        "if call('EXISTS', KILLS) == 1 then call('HDEL', KILLS, unpack(rids)) end": [
            (("always",), SAVES)
        ],
        "task.delay = tonumber(task.delay) or 0": [
            (("without `or 0`",), "second line: `open` is always given one")
        ],
        "task.limit = tonumber(task.limit) or 0": [
            (("without `or 0`",), "second line: `open` is always given one")
        ],
        "call('ZADD', HOSTS, 'LT', integer(math.ceil(math.max(tonumber(next_time) or 0, "
        "now_ms()))), host)": [
            (
                ("without `tonumber(next_time) or`",),
                "claim looks at the host's own time too, and puts it back until then",
            ),
            (("without `or 0`",), "second line: a time is always given"),
        ],
        "call('ZADD', LANES(host), 'NX', integer(score), task .. ':' .. rank)": [
            (("without `'NX',`",), "a lane that is shown already stands at the present turn")
        ],
        "if length == #rids then show_lane(lane) end": [
            (("always",), "it saves calls; what is there stays, what is paused is hidden again")
        ],
        "if keep > now_ms() then call('PEXPIREAT', HOST(host), integer(math.ceil(keep)))": [
            (("always", "`>` becomes `>=`"), "to end at a time that is past is to be deleted")
        ],
        "return ms % 1 > 0 and string.format('%.2f', math.ceil(100 * ms) / 100) or integer(ms)": [
            (
                ("without `ms % 1 > 0 and`", "`%` becomes `+`", "`>` becomes `>=`"),
                "the same number, with two zeros",
            ),
            (
                ("`math.ceil` becomes `math.floor`",),
                "the wait counts from the arrival of the answer, which takes longer",
            ),
        ],
        "return d and next_time - AHEAD or next_time": [
            (("without `d and`",), "claim looks at the host itself, and puts it back until then")
        ],
        "return state[2] and math.max(rest, tonumber(state[3]) or FOREVER) or rest": [
            (
                (
                    "without `and math.max(rest, tonumber(state[3]) or FOREVER)`",
                    "`math.max` becomes `math.min`",
                ),
                GATE,
            )
        ],
        "if state[3] then from = math.max(from, held_until(host)) end": [
            (("removed", "never", "`math.max` becomes `math.min`"), GATE),
            (("always",), SAVES),
        ],
        "return task ~= nil and task.layer ~= nil and depth > task.layer and "
        "task.state ~= 'cancelling'": [
            (("without `task ~= nil and`",), "second line: lanes that are shown have a task")
        ],
        "if depth > 0 and layers.is_beyond(task_of(task), depth) then": [
            (("without `depth > 0 and`", "`>` becomes `>=`"), "no task begins below layer 0")
        ],
        "show_host(host, owner and owner.state == 'cancelling' and 0 or from)": [
            (("without `owner and`",), "second line: lanes that are shown have a task")
        ],
        "local score = rank * TURNS + (tonumber(state[1]) or 0) % TURNS": [
            (("`%` becomes `+`",), "claim puts lanes in order by priority and age of the turn")
        ],
        "left_by = {}": [
            (("removed",), "second line: no verb calls it again after it has filled the list")
        ],
        "if not held_up and not call('ZSCORE', HOSTS, host) then": [
            (("always",), "it saves calls: a host that is there comes no later (LT) and has lanes")
        ],
        "if task.host_limited > 0 then call('HINCRBY', TASK(id), 'host_limited', "
        "task.host_limited) end": [
            (("always", "`>` becomes `>=`"), "it saves a call, which adds 0")
        ],
        "task.host_limited = 0": [(("removed",), "second line: no verb saves its tasks twice")],
        "if key == nil then return end": [
            (("removed", "never"), "second line: every caller has a key")
        ],
        "return lane ~= nil and string.match(lane, '^%d+:%d+:/%d+/end$') ~= nil": [
            (("without `lane ~= nil and`",), "second line: every caller has a lane")
        ],
        "if placing == nil then placing = call('EXISTS', PLACED) == 1 end": [(("always",), SAVES)],
        "return placing and call('HGET', HOST(host), 'ip') or nil": [
            (("without `or nil`",), "false is no address either")
        ],
        "if n == 0 then return end": [(("removed", "never"), "it saves a call, which adds 0")],
        "elseif active == n then call('PERSIST', key) end": [(("always",), SAVES)],
        "if keep > now_ms() then call('PEXPIREAT', key, integer(math.ceil(keep))) "
        "else call('DEL', key) end": [
            (
                ("always", "`>` becomes `>=`", "`math.ceil` becomes `math.floor`"),
                "to end at a time that is past is to be deleted; a time of the past allows all",
            )
        ],
        "if next_time > (tonumber(state[1]) or 0) then call('HSET', key, 'n', "
        "exact(next_time)) end": [(("`>` becomes `>=`",), "the same value once more")],
        "if call('EXISTS', APART(generation)) == 0 then return end": [
            (("removed", "never"), SAVES)
        ],
        "if (tonumber(state[1]) or 0) > latest then call('HSET', HOST(host), 'n', "
        "integer(latest)) end": [(("`>` becomes `>=`",), "the same value once more")],
        "if call('EXISTS', REFUSALS) == 1 then call('HDEL', REFUSALS, unpack(rids)) end": [
            (("always",), SAVES)
        ],
        "if till > 0 then call('ZADD', HELD_HOSTS, integer(till), host)": [
            (("always", "`>` becomes `>=`"), "who reads the list leaves out what is past")
        ],
        "return hash < 0 and -hash or hash": [(("`<` becomes `<=`",), "-0 is 0")],
        "task.seen, task.dirty = task.seen + 1, true": [
            (("true becomes false",), "who calls it counts the request too, which says the same")
        ],
        "if task.seen > FILL * (task.size + task.split) then split_bucket(task) end": [
            (("`>` becomes `>=`",), "a bucket splits one entry earlier, which is as good")
        ],
        "entering, bodies = {}, {}": [(("removed",), "second line: no verb calls it twice")],
    },
    "answer.lua": {
        "if not named[id] then": [(("always",), "a state is told twice, and is the same")],
        "named[id] = true": [
            (("removed", "true becomes false"), "a state is told twice, and is the same")
        ],
        "if own and record then": [
            (("without `and record`",), "second line: what has an owner has a record")
        ],
    },
    "lanes.lua": {
        "while got < n and popped < 500 do": [
            (
                ("without `and popped < 500`", "`<` becomes `<=` (2)"),
                "a bound on the time that leftovers take",
            )
        ],
        "popped = popped + #some": [
            (("removed", "`+` becomes `-`"), "a bound on the time that leftovers take")
        ],
        "if not some or #some == 0 then return got, true end": [
            (("without `or #some == 0`",), "asked for some, an empty list answers nil")
        ],
        "if #some < asked then return got, true end": [
            (("removed", "never"), "the next LPOP finds nothing; it saves that")
        ],
    },
    "take.lua": {
        "local listed = call('ZRANGE', LANES(visit.name), 0, most - 1, 'WITHSCORES')": [
            (("`-` becomes `+`",), "a bound: two lanes more")
        ],
        "if n <= 0 then return end": [
            (("`<=` becomes `<`",), "lanes behind it find no slot either: all keep their order")
        ],
        "if served and #visit.members > 1 then": [
            (("always", "`>` becomes `>=`"), "one lane alone needs no turns; it saves calls")
        ],
        "if visit.turn ~= visit.first_turn then set[1], set[2], n = 't', visit.turn, 2 end": [
            (("always",), SAVES)
        ],
        "if visit.got > 0 then": [
            (
                ("always", "`>` becomes `>=`"),
                "adds 0; it saves a call, and a hash of a host that has nothing goes with the host",
            )
        ],
        "if lanes_left == 0 and (visit.gone < visit.most or call('EXISTS', LANES(host)) == 0) "
        "then": [(("without `visit.gone < visit.most or`",), SAVES)],
        "if visit.lasts or visit.obeyed or visit.pool then call('PERSIST', key) end  "
        "-- it may have been idle": [(("always",), SAVES)],
    },
    "batch.lua": {
        "if other ~= generation then": [
            (("always",), "twice what it holds is never less than that; it saves a call")
        ],
        "mine = mine or call('SCARD', INPROGRESS(generation))": [(("without `mine or`",), SAVES)],
        "if got >= want then break end": [
            (
                ("removed", "never", "`>=` becomes `>`"),
                "second line: as no more hosts are read than requests wanted, and shares are "
                "rounded up, at least one request is left for each host that is left",
            )
        ],
        "got = got + take(host, math.ceil((want - got) / (#due - i + 1)))": [
            (
                ("`math.ceil` becomes `math.floor`",),
                "shares are rounded otherwise, the sum is the same",
            )
        ],
        "local time = math.max(0, math.ceil(tonumber(first[2]) - now))": [
            (("`math.ceil` becomes `math.floor`",), "times are whole milliseconds")
        ],
        "if wait < 0 or time < wait then wait = time end": [
            (("`<` becomes `<=` (2)",), "the same is put in place of the same")
        ],
    },
    "complete.lua": {
        "local cursors = call('EXISTS', CURSOR) == 1 "
        "and call('HMGET', CURSOR, unpack(rids)) or {}": [
            (("without `call('EXISTS', CURSOR) == 1 and`",), "it saves a call in most cases")
        ],
        "if records[i] and not gone[rid] and task then": [
            (("without `and task`",), "second line: a pending request has a task")
        ],
        "if cursors[1] ~= nil then call('HDEL', CURSOR, unpack(done)) end": [(("always",), SAVES)],
    },
    "era.lua": {"return 1": [(("removed",), UNREAD)]},
    "audit.lua": {
        "for bucket = 0, task.size + task.split - 1 do": [
            (("`-` becomes `+`",), "buckets that do not exist are counted too: they are empty")
        ],
        "if not been[entry] then": [(("always",), RESIZED)],
        "been[entry] = true": [(("removed", "true becomes false"), RESIZED)],
        "if fields.ip and address_of(name) then add(at, fields.ip, slots) end": [
            (("without `fields.ip and`",), SAVES)
        ],
        "elseif kind == 'inprogress' then add(held, name, -call('SCARD', key)) end": [
            (("always",), "no other keys have such names")
        ],
    },
    "lease.lua": {"return 1": [(("removed",), UNREAD)]},
    "confirm.lua": {"return 1": [(("removed",), UNREAD)]},
    "announce.lua": {
        "local id = time[1] * 1000000 + time[2]": [
            (("`+` becomes `-`",), "some microseconds; it is later than any before all the same")
        ],
    },
    "open.lua": {"return new and 1 or 0": [(("without `and 1`",), TRUE)]},
    "park.lua": {
        "if string.find(tried, mark, 1, true) then return tried end": [
            (("true becomes false",), "hex digits mean themselves in a pattern")
        ],
    },
    "retake.lua": {
        "if not string.find(tried, mark, 1, true) then untried[#untried + 1] = tried end": [
            (("true becomes false",), "hex digits mean themselves in a pattern")
        ],
        "look = look - 4  -- it takes five times as long as skipping a task": [
            (("removed", "`-` becomes `+`"), "a bound on the time of one call")
        ],
        "local share = math.ceil(look / (#untried - i + 1))": [
            (("`math.ceil` becomes `math.floor`", "`-` becomes `+`"), "a bound, shared otherwise")
        ],
        "if moved >= most or look <= 0 then break end": [
            (
                ("without `moved >= most or`", "`>=` becomes `>`"),
                "0 are asked for then, and none is taken",
            ),
            (
                ("removed", "never", "without `or look <= 0`", "`<=` becomes `<`"),
                "a bound on the time of one call",
            ),
        ],
        "look = look - 1": [(("removed", "`-` becomes `+`"), "a bound on the time of one call")],
    },
    "state.lua": {
        "if ARGV[2] == 'paused' then return 0 end": [
            (("removed", "never"), "claim hides again what is shown too early; it saves that")
        ],
        "if call('EXISTS', LANE(lane)) == 1 then show_lane(lane) end": [
            (("always",), "claim takes away again what is empty; it saves that")
        ],
    },
}


def reason(mutant: Mutant) -> str:
    """The reason why a mutant changes nothing observable; "" if none is known."""
    lines = REASONS.get(mutant.file.rpartition("/")[2], {})
    return next((why for changes, why in lines.get(mutant.line, ()) if mutant.what in changes), "")


def unknown(mutants: list[Mutant]) -> list[str]:
    """The entries here that match no existing mutant."""
    here = {(m.file.rpartition("/")[2], m.line, m.what) for m in mutants}
    return [
        f"{file}: {line!r}, {what}"
        for file, lines in REASONS.items()
        for line, entries in lines.items()
        for changes, _ in entries
        for what in changes
        if (file, line, what) not in here
    ]
