"""Signals: the uses that a site allows or denies, as contentsignals.org writes them, and as the
IETF does (draft-ietf-aipref-vocab-08)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

USES = ("search", "ai-input", "ai-train")

Signals = Mapping[str, bool]  # a use -> whether it is allowed; one that is not named is not there
NO_SIGNALS: Signals = MappingProxyType({})

_WORDS = {"yes": True, "no": False}
# Category of the draft -> use. Earlier drafts have two more: bots, which is any use, and
# train-genai, a part of train-ai.
_CATEGORIES = {"search": "search", "ai-use": "ai-input", "train-ai": "ai-train"}

# A dictionary by RFC 9651, 4.2.2.
_KEY = r"[a-z*][a-z0-9_.*-]*"
_ITEM = (
    r"(?:[A-Za-z*][!#$%&'*+.^_`|~:/0-9A-Za-z-]*"  # a token
    r'|"(?:[ !#-\[\]-~]|\\["\\])*"|%"(?:[ !#$&-~]|%[0-9a-f]{2})*"'  # strings
    r"|-?[0-9]{1,12}\.[0-9]{1,3}|@?-?[0-9]{1,15}|:[A-Za-z0-9+/=]*:|\?[01])"
)
_PARAMETERS = rf"(?:; *{_KEY}(?:={_ITEM})?)*"
_INNER_LIST = rf"\( *(?:{_ITEM}{_PARAMETERS}(?: +|(?=\))))*\)"
_MEMBER = rf"({_KEY})(?:=(?:({_ITEM})|{_INNER_LIST}))?{_PARAMETERS}"
_NEXT_MEMBER = re.compile(rf"{_MEMBER}(?:[ \t]*,[ \t]*(?=[a-z*])|$)")


def merge(into: dict[str, bool], signals: Signals) -> None:
    """Adds signals. Where two differ, "no" counts."""
    for use, allowed in signals.items():
        into[use] = into.get(use, True) and allowed


def read_signals(text: str) -> dict[str, bool]:
    """Returns the signals of one line or header, such as ``search=yes, ai-train=no``. Unknown words
    are ignored. If a use is named twice, "no" counts."""
    signals: dict[str, bool] = {}
    for part in text.lower().split(","):
        name, _, word = part.partition("=")
        use, allowed = name.strip(), _WORDS.get(word.strip())
        if use in USES and allowed is not None:
            merge(signals, {use: allowed})
    return signals


def read_preferences(text: str) -> dict[str, bool]:
    """Returns the signals of a Content-Usage header or rule, such as ``train-ai=n``, by the
    algorithm of the draft, 6.5: unknown if it is no dictionary; the last of a category counts."""
    text, place = text.strip(" "), 0
    values: dict[str, str | None] = {}
    while found := _NEXT_MEMBER.match(text, place):
        values[found[1]] = found[2]
        place = found.end()
    if place < len(text):
        return {}
    said = {category: value == "y" for category, value in values.items() if value in ("y", "n")}
    if said.get("train-genai") is False:
        said["train-ai"] = False
    every = {} if "bots" not in said else dict.fromkeys(USES, said["bots"])
    return every | {use: said[name] for name, use in _CATEGORIES.items() if name in said}
