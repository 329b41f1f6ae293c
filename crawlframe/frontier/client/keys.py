"""The name of every Redis key, in Python and (as a prelude) in Lua.

All keys of one partition share the hash tag ``{p}``, so a script uses one cluster slot only.

Lane: the requests of one task, one rank and one host, in order of arrival. It is named
``<task>:<rank>:<host>``. The lanes of a host together are its queue, divided so that a task can be
paused or skipped at once and each entry takes 18 bytes.

Tried: the code versions that could not run a request, as marks of 8 hex digits joined by dots,
oldest first, at most 8. Parked requests are grouped by it: each version finds those it has not
tried.
"""

from __future__ import annotations

import re

# name: (suffix, type, meaning). A suffix with a dot takes an argument in Lua: NAME(argument).
KEYS: dict[str, tuple[str, str]] = {
    "HOSTS": (
        "hosts",
        "zset host -> earliest time (ms): has requests and, as far as known, a slot; @<address> "
        "stands for the hosts in its WAITING",
    ),
    "APART": (
        "apart:.",
        "zset of a generation: host -> earliest time (ms): all that it has belongs to tasks that "
        "this generation serves alone, so it is not in HOSTS",
    ),
    "LANES": ("l:.", "zset of a host: <task>:<rank> -> rank and turn"),
    "LANE": ("q:.", "list of a lane: rids that are ready"),
    "HOST": (
        "h:.",
        "hash of a host: a fetches in progress, n next time (ms), t turn, d delay of its last "
        "request (ms), and its rid until it was sent, or ~<end> and token of its permit. Kept "
        "while they matter: x 1 if any of r, op, od, oc, og, p, rd and rw is set; r rest until "
        "(ms), why (its reason), "
        "f rests in a row, since s (ms), u requests in a row that did not reach it, p probation "
        "(1 the next request is a trial, 2 it was sent), b the last pages (each 0, or 1 a "
        "block); g gap of the adaptive rate (ms), c its other numbers (msgpack), w claims in a "
        "row that the gap held up; od and oc an "
        "operator's delay (ms) and concurrency, op 1 paused by an operator, og further rules of "
        "the gate (as gates.encode writes them), ou until when these hold (ms, absent = without "
        "end); ro robots known until (ms), rd robots delay (ms), "
        "rw requests that obey robots wait until (ms); ip address at which its fetches are "
        "counted; v there are PERMITS, until (ms). Of a pair <host>|<id of a proxy>, the same. "
        "Of a place <host>|<route>, also: pc where its turn of proxies is; l tier in use, lt when "
        "a cheaper one is tried, lk how often in vain, lb blocks in a row, lu 1 the next tier is "
        "due; px proxy of its session, sx how often that was changed",
    ),
    "PERMITS": (
        "permits:.",
        "hash of a host, or of @<address>: token of a fetch outside of the queue -> <g given, o in "
        "the slot of a request, w waiting, t waiting for its time in the slot of a request> "
        "<begin (ms)> <end (ms)>",
    ),
    "ADDRESS": (
        "ip:.",
        "hash of an IP address: a fetches in progress of its hosts, n next time (ms), d and "
        "v as of HOST; v for PERMITS of @<address>",
    ),
    "WAITING": (
        "iw:.",
        "zset of an IP address: host -> earliest time (ms): it waits for the address, not in HOSTS",
    ),
    "PLACED": ("placed", "string 1: the address of some host is known; absent: of none"),
    "POOL": (
        "pool",
        "hash id of a proxy -> msgpack {tier, country, tag, ...}; all that may be used",
    ),
    "POOL_VERSION": ("poolversion", "string: names the state of the pool that is in POOL"),
    "PROXY": (
        "proxy:.",
        "hash of a proxy: a requests in flight in this partition, m the most of them (0 = no "
        "limit), f its failures in a row, fh the host at which the last one was, ok 1 it has "
        "answered, life as the pool was published",
    ),
    "OUT": ("out", "set of proxies that have failed and are not used, until their life changes"),
    "RINGS": (
        "rings",
        "hash choice of proxies -> msgpack {version of the pool, {tier, how many, ...}}",
    ),
    "RING": ("ring:.", "zset of a choice of proxies: id -> tier and id"),
    "BUSY": (
        "busy:.",
        "zset of a host: id of a proxy -> when it may be used there (ms): an index of pairs",
    ),
    "STALLED": ("stalled", "zset place -> since (ms): its proxies had no free slot over all hosts"),
    "RENDER": (
        "render:.",
        "hash of a spider: <callback> <template> -> <pages not rendered>,<rendered>,<in vain>,"
        "<in a row that needed it>,<since the last plain one>,<1: some had items>,<bare in vain>,"
        "<bare accepted>,<since (ms)>,<used (ms)> <name of the last call>",
    ),
    "RESERVED": (
        "reserved:.",
        "string of a page's key, or of the rid of a redirect's target: <since (ms)> <rid of "
        "the request that fetches it>",
    ),
    "NEAR": (
        "near:.",
        "hash of a store of texts: pages remembered so far, entries and buckets of the index, and "
        "the limit of pages",
    ),
    "NEAR_INDEX": ("neari:.", "string of a store and bucket: entries of near.lua"),
    "NEAR_PAGES": ("nearp:.", "string of a store and chunk: records of near.lua"),
    "NEAR_ASKED": (
        "neara:.",
        "hash of a store: head of a page that is not settled -> f<record> <its URL>, if it is the "
        "first of its kind, or d<bits> <head of the page that it is like> <that URL>",
    ),
    "DECIDED": ("decision:.", "string of a version that loses data: JSON of Decision"),
    "TRIALS": ("trials", "hash order -> JSON of TrialOrder: kept pages that a node is to try"),
    "TRIAL": (
        "trial:.",
        "string of an order: the same, until it is forgotten; of <order>:answer: the result, JSON",
    ),
    "USED": (
        "used:.",
        "hash of a host: id of a proxy -> <when its last fetch was over (ms)> <latency (ms), -1 "
        "before the first answer> <errors>; t <choice> -> tier in use",
    ),
    "LACKING": (
        "lacking",
        "zset place -> since (ms): no proxy that its choice allows can be used there",
    ),
    "HELD_HOSTS": (
        "held",
        "zset host -> until (ms): parked, paused by an operator, or asked to wait long",
    ),
    "WATCHED": (
        "watched",
        "set of hosts whose next answers are counted: with failures, on probation, or blocking",
    ),
    "REQ": ("req", "hash rid -> record (as records.cut leaves it); every pending request"),
    "OWN": (
        "own",
        "hash rid -> <holder>|<lane>; holder = <generation>.<claim> (being fetched), "
        "<generation>+<claim> (fetched), d (delayed) or p (parked)",
    ),
    "TRIES": ("tries", "hash rid -> <attempts>,<deliveries>[,<tried>]; absent = 0,0"),
    "KILLS": ("kills", "hash rid -> workers whose death it is blamed for; absent = 0"),
    "REFUSALS": ("refusals", "hash rid -> how often its host refused it; absent = 0"),
    "CURSOR": ("cursor", "hash rid -> follow-ups of a long list that were pushed"),
    "DELAYED": ("delayed", "zset rid -> due time (ms)"),
    "INPROGRESS": ("inprogress:.", "set of a generation: rids it holds"),
    "BATCH": ("batch:.", "string of a generation: its last claim, in case the answer is lost"),
    "PARKED": ("parked:.", "hash of a task: rid -> reason"),
    "TRIED_VERSIONS": ("trails", "set of the lists of tried versions that parked requests have"),
    "TASKS_BY_TRIED": ("trail:.", "set of such a list: tasks with such parked requests"),
    "PARKED_BY_TRIED": ("stranded:.", "set of <task>:<tried>: the parked requests (rids)"),
    "RETAKEN": ("retaken:.", "string of a retake call: its answer, in case that is lost"),
    "PAUSED": ("paused:.", "set of a task: lanes that wait for resume"),
    "DEEP": ("deep:.", "zset of a task that is crawled in layers: lane of a later layer -> layer"),
    "SEEN": ("seen:.", "intsets of 64-bit fingerprints: <task>:<bucket>, linear hashing"),
    "TASK": (
        "task:.",
        "hash of a task: counters, state, limits; changing = state change not complete; cookies = "
        "version of its cookies, swept = the one at which deleted ones were last dropped; pin = "
        "the generation that serves it alone, 0 = any may begin, absent = all do; layer = the "
        "deepest that is shown, absent = all; beyond = pending requests that are deeper, "
        "w<depth> = those of one depth; led 1 = a request of it was redirected; gates = further "
        "rules of the gate",
    ),
    "HOST_PAGES": ("pages:.", "hash of a task with a limit per host: host -> requests admitted"),
    "TASKS": ("tasks", "set of tasks that have not been closed"),
    "COOKIES": ("cookies:.", "hash of a task: cookie key -> cookie; empty = deleted"),
    "ERA": (
        "era",
        "string <number> <open, doubted or closed>: of the data in this partition; absent = 0 open",
    ),
    "INSTALLATION": (
        "installation",
        "string: id of the database this data belongs to (partition 0)",
    ),
    "CALL_LOG": ("pulse:.", "string of a client: number of its last call that changed something"),
    "GENERATIONS": ("generations", "zset generation -> end of its lease (ms)"),
    "STARVED": ("hungry", "zset generation -> when it last got less than it asked for (ms)"),
    "AFFINITY": (
        "affinity",
        "string msgpack: which node the hosts of each slot belong to, as affinity.py writes it",
    ),
    "LOADS": ("loads", "hash generation -> msgpack of NodeLoad (partition 0)"),
    "DOMAINS": (
        "domains",
        "hash end of a name -> how many more labels the public suffix has, by the Public Suffix "
        "List; where AFFINITY is by domain",
    ),
    "FENCED": ("fenced", "set of generations declared dead, for ever"),
    "NODES": ("nodes", "hash generation -> JSON of its node (partition 0)"),
    "SPIDERS": ("spiders", "hash spider -> JSON of its description (partition 0)"),
    "QUARANTINE": (
        "quarantine",
        "hash <hash> <field> -> <time (ms)> <start of the value>: rows that could not be read",
    ),
    "FORGOTTEN": ("forgotten", "string: how often robots.txt files were forgotten (partition 0)"),
    "ROLLOUT": ("rollout", "hash <branch>:[<node>] -> <id>|<JSON of a rollout> (partition 0)"),
}


# Kept across eras, because it is not rebuilt from the database; of a host, its learned limits.
LASTING = {
    "ERA", "INSTALLATION", "CALL_LOG", "GENERATIONS", "FENCED", "NODES", "SPIDERS", "ROLLOUT",
    "COOKIES", "QUARANTINE", "HOST", "HELD_HOSTS", "WATCHED", "FORGOTTEN", "RENDER",
    "USED",
}  # fmt: skip
# Redis's own: also kept when another installation takes it over.
OWN_AFFAIRS = {"ERA"}


class Keys:
    """The keys of one partition."""

    def __init__(self, prefix: str, partition: int) -> None:
        self.prefix = prefix
        self.tag = f"{prefix}:{{{partition}}}:"

    def __call__(self, name: str, argument: object = "") -> str:
        """``keys("TASK", 7)`` -> ``cf:{0}:task:7``. Raises KeyError on an unknown name."""
        return self.tag + KEYS[name][0].replace(".", str(argument))

    def pattern(self, rest: str = "*") -> str:
        """The pattern for SCAN of the keys of this partition whose suffix matches ``rest``."""
        return re.sub(r"([\[\]*?\\])", r"\\\1", self.tag) + rest


def lua_prelude(text: str) -> str:
    """Lua locals for every key that a script names, as it may have 200 locals: constants, or
    functions where a name takes an argument."""
    words = set(re.findall(r"\w+", text))
    lines = ["local TAG = KEYS[1]"]
    for name, (suffix, _) in KEYS.items():
        if name not in words:
            continue
        if suffix.endswith("."):
            lines.append(f"local function {name}(of) return TAG .. '{suffix[:-1]}' .. of end")
        else:
            lines.append(f"local {name} = TAG .. '{suffix}'")
    return "\n".join(lines)
