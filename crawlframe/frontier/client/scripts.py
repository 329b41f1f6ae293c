"""Loads the Lua verbs: each file of ``lua/``, preceded by the key names and the shared part.
KEYS[1] of each is the tag of the partition."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from redis import Redis
from redis.commands.core import Script

from crawlframe.frontier.client.keys import lua_prelude

LUA = Path(__file__).parents[1] / "lua"
GATES = LUA / "gates"  # of each rule of ``crawlframe.gates`` its function
READING = {"audit", "hosts", "known", "leases", "waits"}
UNGUARDED = {*READING, "era", "quarantine"}  # verbs that do not take part in the call log
UNCOUNTED = {"claim", "confirm"}  # verbs that do not always change something
# They receive signals of fetches.
HEARING = {"claim", "complete", "permit", "redirect", "release", "retry"}
GATED = {"claim", "hosts", "permit", "waits"}  # verbs that ask the gate
# Verbs that are too long for one file: the files of their folders, in this order.
PARTS = {
    "claim": (
        "begin", "fetched", "answer", "lanes", "proxies", "affinity", "take", "batch",
    )
}  # fmt: skip

DEFERRED = {"affinity", "proxies"}  # parts that are defined where a claim needs them


@cache
def source(verb: str) -> str:
    """The complete Lua text of a verb."""
    parts = [(LUA / f"{name}.lua").read_text() for name in ("_naming", "_shared")]
    if verb not in READING:
        parts.append((LUA / "_proxies.lua").read_text())
    if verb in HEARING:
        pace, signals = ((LUA / f"{name}.lua").read_text() for name in ("_pace", "_signals"))
        parts += ["local function define_pace()", pace, "end", signals]
    if verb in GATED:
        parts += ["local gate = {}", "function gate.define_rules()", "local rules = {}"]
        parts += [rule.read_text() for rule in sorted(GATES.glob("*.lua"))]
        parts += ["return rules", "end", (LUA / "_gate.lua").read_text()]
    if verb not in UNGUARDED:
        parts.append((LUA / "_guard.lua").read_text())
    if verb not in UNGUARDED | UNCOUNTED:
        parts.append("keep_pulse()")
    if verb in PARTS:
        begin, *blocks = files(verb)
        parts += [
            begin.read_text(),
            *(f"{_head(block)}\n{block.read_text()}end" for block in blocks),
        ]
    else:
        parts.append(files(verb)[0].read_text())
    text = "\n".join(parts)
    return f"{lua_prelude(text)}\n{text}"


def _head(block: Path) -> str:
    return f"function define.{block.stem}()" if block.stem in DEFERRED else "do"


def verbs() -> list[str]:
    """The names of all verbs."""
    return sorted([*PARTS, *(path.stem for path in LUA.glob("[!_]*.lua"))])


def files(verb: str) -> list[Path]:
    """The files of a verb, without the shared ones."""
    return (
        [LUA / verb / f"{part}.lua" for part in PARTS[verb]]
        if verb in PARTS
        else [LUA / f"{verb}.lua"]
    )


class Scripts(dict[str, Script]):
    """The verbs by name: ``scripts["claim"](keys=[tag], args=[...])``."""

    def __init__(self, redis: Redis) -> None:
        super().__init__((verb, redis.register_script(source(verb))) for verb in verbs())
