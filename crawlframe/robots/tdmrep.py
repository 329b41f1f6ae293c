"""tdmrep.json: for which pages of an origin the rights to text and data mining are reserved (TDM
Reservation Protocol, W3C CG, 2024, "TDM file on the origin server")."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from crawlframe.robots.reading import DAY, HOUR, Fetched
from crawlframe.robots.rules import MAX_BYTES, PathRule
from crawlframe.robots.state import RobotsState, Status

PATH = "/.well-known/tdmrep.json"
MAX_RULES = 1_000  # of a file that are read


class Reservation(NamedTuple):
    """A file's reservation of a page. ``policy`` is a URL, or ""."""

    reserved: bool
    policy: str = ""


class TdmRules:
    """The rules of one file. Other entries are ignored."""

    def __init__(self, text: str = "") -> None:
        self._rules: list[tuple[PathRule, Reservation]] = []
        for rule in _list_of(text)[:MAX_RULES]:
            if not isinstance(rule, dict):
                continue
            location, reserved = rule.get("location"), rule.get("tdm-reservation")
            policy = rule.get("tdm-policy", "")
            if isinstance(location, str) and location and reserved in (0, 1, "0", "1"):
                said = Reservation(int(reserved) == 1, policy if isinstance(policy, str) else "")
                self._rules.append((PathRule(location), said))

    def find(self, url: str) -> Reservation | None:
        """Returns the reservation of the first rule that matches a normalised URL, or None."""
        return next((said for rule, said in self._rules if rule.fits(url)), None)


def judge_file(got: Fetched, now: float) -> RobotsState:
    """Returns the state after an attempt to read the file: an unreadable file has no rules. A
    failure counts for an hour, anything else for a day, or as long as the server says."""
    age = DAY if got.max_age is None else min(DAY, max(HOUR, got.max_age))
    if got.status == 200 and not got.lost:
        text = got.body[:MAX_BYTES].decode("utf-8-sig", "replace").replace("\0", "")
        if _list_of(text):
            return RobotsState(Status.RULES, 200, text, now, now + age)
        note = f"it is no list of rules in JSON, or has more than {MAX_BYTES:,} bytes"
        return RobotsState(Status.NOT_TEXT, 200, "", now, now + age, note=note)
    failed = got.status is None or got.status >= 500 or got.status == 429
    note = got.detail or f"the server answered {got.status}"
    until = now + (HOUR if failed else age)
    return RobotsState(Status.NO_RULES, got.status, "", now, until, note=note)


def _list_of(text: str) -> list[Any]:
    try:
        rules = orjson.loads(text or "[]")
    except orjson.JSONDecodeError:
        return []
    return rules if isinstance(rules, list) else []


NO_TDM_RULES = TdmRules()
