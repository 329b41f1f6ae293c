"""Content signals: the uses that a site allows or denies, as contentsignals.org writes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

USES = ("search", "ai-input", "ai-train")

Signals = Mapping[str, bool]  # a use -> whether it is allowed; one that is not named is not there
NO_SIGNALS: Signals = MappingProxyType({})

_WORDS = {"yes": True, "no": False}


def read_signals(text: str) -> dict[str, bool]:
    """Returns the signals of one line or header, such as ``search=yes, ai-train=no``. What is not
    known is ignored. If a use is named twice, "no" counts."""
    signals: dict[str, bool] = {}
    for part in text.lower().split(","):
        name, _, word = part.partition("=")
        use, allowed = name.strip(), _WORDS.get(word.strip())
        if use in USES and allowed is not None:
            signals[use] = signals.get(use, True) and allowed
    return signals
