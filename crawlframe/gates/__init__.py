"""Gates: the rules of the frontier's gate that come from a setting of a spider or an order for a
host, a module each. Its name is the setting's; ``frontier/lua/gates`` has a file of this name. Its
function ``encode`` returns the frontier's form of a value, numbers separated by commas, and raises
ValueError with the problem and the fix."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module


@cache
def names() -> tuple[str, ...]:
    """The names of all rules."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def check(name: str, value: str) -> None:
    """Raises ValueError if the rule has no such value."""
    _encoder(name)(value)


def encode(values: Mapping[str, str]) -> str:
    """The values by rule, as the gate reads them; "" without any."""
    return ";".join(f"{name}={_encoder(name)(value)}" for name, value in values.items())


def _encoder(name: str) -> Callable[[str], str]:
    encode: Callable[[str], str] = import_module(f"{__name__}.{name}").encode
    return encode
