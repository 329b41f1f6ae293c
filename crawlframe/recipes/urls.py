"""URLs of a recipe: arguments and ranges of numbers in braces are filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any
from urllib.parse import quote

PLACE = re.compile(r"\{([^\W\d]\w*)\}")
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
MAX_RANGE = 1_000_000

_PARTS = re.compile(r"(\{[^\W\d]\w*\}|\{\d+\.\.\d+\})")


def filled(template: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Each URL that a template stands for: one for each number of its ranges and each element of
    its lists. Values are percent-encoded, unless the template begins with them."""
    parts = _PARTS.split(template)
    choices: list[Any] = []
    for place, part in enumerate(parts):
        if span := RANGE.fullmatch(part):
            first, last = span.groups()
            width = len(first) if first.startswith("0") else 0
            choices.append(_numbers(int(first), int(last), width))
        elif name := PLACE.fullmatch(part):
            value = values[name[1]]
            several = value if isinstance(value, list | tuple) else [value]
            begins = not any(parts[:place])
            choices.append([str(one) if begins else quote(str(one), safe="") for one in several])
        else:
            choices.append([part])
    return map("".join, product(*choices))


def _numbers(first: int, last: int, width: int) -> list[str]:
    return [f"{number:0{width}d}" for number in range(first, last + 1)]
