"""Effects: what the import of a module may change besides itself."""

from __future__ import annotations

import builtins
import csv
import decimal
import logging
import os
import socket
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from operator import is_
from types import ModuleType
from typing import Any

MAX_DEPTH = 3  # of containers and objects inside each other
MAX_PARTS = 2_000  # containers and objects of a module
MAX_VALUES = 5_000  # of a container; of a larger one only the length is compared
# Of the environment, in bytes: to read them one by one takes a third of an import.
_variables: Any = getattr(os.environ, "_data", os.environ)


class State:
    """The values in a module, in its classes, and in the containers and objects that it holds.
    ``owners``: id of each container and object -> the module that had it first, and has it in its
    state. Runs no code of authors."""

    def __init__(self, module: ModuleType, owners: dict[int, str]) -> None:
        self._name, self._owners = module.__name__, owners
        self._parts: list[tuple[Any, Callable[[Any], list[Any]], list[Any]]] = []
        self._note(vars(module), _pairs, 0)

    def has_changed(self) -> bool:
        """Whether a value is another object than before; from then on, it is as it was now."""
        changed = False
        for number, (part, values_of, before) in enumerate(self._parts):
            now = values_of(part)
            if len(now) != len(before) or not all(map(is_, now, before)):
                self._parts[number] = (part, values_of, now)
                changed = True
        return changed

    def _note(self, part: Any, values_of: Callable[[Any], list[Any]], depth: int) -> None:
        if len(self._parts) >= MAX_PARTS or self._owners.setdefault(id(part), self._name) != (
            self._name
        ):
            return
        values = values_of(part)
        self._parts.append((part, values_of, values))
        if depth < MAX_DEPTH and len(values) <= MAX_VALUES:
            for value in values:
                self._look_into(value, depth + 1)

    def _look_into(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind in _PLAIN:
            return
        if issubclass(kind, type):
            if type.__getattribute__(value, "__module__") == self._name:
                self._note(type.__getattribute__(value, "__dict__"), _pairs, depth)
            return
        for base, values_of in _CONTAINERS:
            if issubclass(kind, base):
                self._note(value, values_of, depth)
        if kind.__dictoffset__:
            inside = object.__getattribute__(value, "__dict__")
            if inside:
                self._note(inside, _pairs, depth)


def _pairs(namespace: Mapping[str, Any]) -> list[Any]:
    """Names and values of a namespace; modules, which importing binds in packages, do not count,
    nor do Python's own names, in which libraries keep caches."""
    items = [*namespace.items()]
    return [
        one
        for pair in items
        if type(pair[1]) is not ModuleType and not str.startswith(pair[0], "__")
        for one in pair
    ]


def _of_dict(container: dict[Any, Any]) -> list[Any]:
    if dict.__len__(container) > MAX_VALUES:
        return [None] * dict.__len__(container)
    return [*dict.keys(container), *dict.values(container)]


def _of(kind: Any) -> Callable[[Any], list[Any]]:
    def values_of(container: Any) -> list[Any]:
        length = kind.__len__(container)
        return [None] * length if length > MAX_VALUES else [*kind.__iter__(container)]

    return values_of


_PLAIN = frozenset((str, int, float, bool, bytes, complex, type(None), ModuleType))
_CONTAINERS: tuple[tuple[type, Callable[[Any], list[Any]]], ...] = (
    (dict, _of_dict),
    *((kind, _of(kind)) for kind in (list, tuple, set, frozenset, deque, bytearray)),
)


def closes(module: ModuleType) -> bool:
    """Whether something in a module runs code when it is freed."""
    return any(
        "__del__" in vars(base)
        for value in [*vars(module).values()]
        for base in (value if issubclass(type(value), type) else type(value)).__mro__
    )


def surroundings() -> tuple[Any, ...]:
    """State of the process that modules often change: settings, and what has to be closed."""
    return (
        _variables.copy(),
        os.getcwd(),  # noqa: PTH109
        tuple(sys.path),
        len(sys.meta_path),
        sys.getrecursionlimit(),
        socket.getdefaulttimeout(),
        csv.field_size_limit(),
        repr(decimal.getcontext()),
        len(vars(builtins)),
        len(warnings.filters),
        _loggers(logging.root, logging.root.manager.loggerDict.values()),
        len(getattr(weakref.finalize, "_registry", ())),
        _open_files(),
    )


def _loggers(root: logging.Logger, others: Iterable[object]) -> list[tuple[object, ...]]:
    return [
        (logger.name, logger.level, len(logger.handlers), len(logger.filters), logger.propagate)
        for logger in [root, *others]
        if isinstance(logger, logging.Logger)
        and (logger.level or logger.handlers or logger.filters or not logger.propagate)
    ]


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # less work than a Path
    except OSError:
        return 0
