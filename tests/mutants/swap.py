"""Swap: replaces a loaded module by a changed one, for everything that uses it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

PLAIN = (str, int, float, tuple, set, frozenset, dict)  # constants that are put in as they are


def put_in(name: str, source: str) -> None:
    """Replaces the module's functions and constants by ``source``'s, wherever imported."""
    module = sys.modules[name]
    compiled = compile(source, str(module.__file__), "exec")
    codes = dict(_codes(compiled))
    for function in _functions(module):
        if code := codes.get(function.__qualname__):
            function.__code__ = code
    fresh = ModuleType(name)
    fresh.__file__ = module.__file__
    exec(compiled, fresh.__dict__)
    for key, value in vars(fresh).items():
        old = vars(module).get(key)
        if isinstance(value, PLAIN) and not key.startswith("__") and value != old:
            _replace(key, old, value)


def _replace(key: str, old: Any, new: Any) -> None:
    for module in [*sys.modules.values()]:
        if getattr(module, "__dict__", {}).get(key, module) is old:
            setattr(module, key, new)


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant
            yield from _codes(constant)


def _functions(owner: Any) -> Iterator[FunctionType]:
    for thing in [*vars(owner).values()]:
        for name in ("__func__", "fget", "func", "__wrapped__"):
            thing = getattr(thing, name, thing)
        if isinstance(thing, FunctionType):
            yield thing
        elif isinstance(thing, type) and thing.__module__ == getattr(owner, "__name__", ""):
            yield from _functions(thing)
