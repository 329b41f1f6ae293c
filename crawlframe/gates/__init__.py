"""Gates: the rules of the frontier's gate that come from a setting of a spider or an order for a
host, a module each. Its name is the setting's; ``frontier/lua/gates`` has a file of this name."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import NamedTuple


class GateRule(NamedTuple):
    """A rule. ``encode`` returns the frontier's form of a value, numbers separated by commas.
    Raises ValueError with the problem and the fix."""

    encode: Callable[[str], str]


@cache
def names() -> tuple[str, ...]:
    """The names of all rules."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def check(name: str, value: str) -> None:
    """Raises ValueError if the rule has no such value."""
    _rule(name).encode(value)


def encode(values: Mapping[str, str]) -> str:
    """The values by rule, as the gate reads them; "" without any."""
    return ";".join(f"{name}={_rule(name).encode(value)}" for name, value in values.items())


def _rule(name: str) -> GateRule:
    rule: GateRule = import_module(f"{__name__}.{name}").RULE
    return rule
