"""Trace: the authors' modules as they are imported: the modules that each one needs, and whether
its import has effects beyond itself."""

from __future__ import annotations

import builtins
import gc
import importlib
import importlib.util
import logging
import os
import socket
import sys
import typing
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

# Names in the code of a module that looks for modules or other files.
SEARCHES = frozenset(
    ("iter_modules", "walk_packages", "listdir", "scandir", "iterdir", "glob", "iglob", "rglob")
)
_LENGTHS: tuple[tuple[type, Callable[[Any], int]], ...] = tuple(
    (kind, kind.__len__)  # that of a subclass may run authors' code
    for kind in (dict, list, set, deque, bytearray)
)


class Trace:
    """Use it from one thread. ``effects``: module -> what its import changed besides itself."""

    def __init__(self) -> None:
        self.effects: dict[str, str] = {}
        self.searching: set[str] = set()  # modules whose code looks for modules or other files
        self._needs: dict[str, set[str]] = {}  # module -> names that its import asked for
        self._containers: dict[str, list[tuple[Any, Callable[[Any], int]]]] = {}
        self._sizes: dict[str, list[int]] = {}
        self._owners: dict[int, str] = {}  # id of a container -> the first module that had it

    def run(self, name: str, code: Callable[[], None], module: ModuleType) -> None:
        """Runs the code of a module that is imported. Raises its errors."""
        self._needs[name] = set()
        surroundings = _surroundings()
        try:
            code()
        finally:
            self._measure(name, module)
            if _surroundings() != surroundings:
                self.effects[name] = "the state of the process"
            if any("__del__" in vars(kind) for kind in _classes(vars(module), name)):
                self.effects[name] = "something at its end"
            for other in self._needed_by(name):
                if (sizes := self._size(other)) != self._sizes[other]:
                    self._sizes[other] = sizes
                    self.effects[name] = other

    def note_code(self, name: str, code: CodeType) -> None:
        """Notes whether the code of a module looks for modules or other files."""
        if _names_in(code) & SEARCHES:
            self.searching.add(name)

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Within it, modules that are imported note the modules that they ask for."""
        real_import, real_import_module = builtins.__import__, importlib.import_module

        def traced(
            name: str,
            globals: Mapping[str, Any] | None = None,
            locals: Mapping[str, Any] | None = None,
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> ModuleType:
            needs = self._needs.get(globals.get("__name__", "")) if globals else None
            if needs is not None:
                base = _absolute(name, globals or {}, level)
                needs.add(base)
                needs.update(f"{base}.{part}" for part in fromlist or ())
            return real_import(name, globals, locals, fromlist or (), level)

        def traced_module(name: str, package: str | None = None) -> ModuleType:
            needs = self._needs.get(sys._getframe(1).f_globals.get("__name__", ""))
            if needs is not None:
                needs.add(importlib.util.resolve_name(name, package) if package else name)
            return real_import_module(name, package)

        builtins.__import__, importlib.import_module = traced, traced_module
        try:
            yield
        finally:  # a module may have put another function around ours
            if builtins.__import__ is traced:
                builtins.__import__ = real_import
            if importlib.import_module is traced_module:
                importlib.import_module = real_import_module

    def dependents(self, names: Collection[str]) -> set[str]:
        """These modules, and all whose import asked for one of them, directly or indirectly; of a
        package, also all modules in it."""
        found = set(names)
        growing = True
        while growing:
            more = {
                name
                for name, needs in self._needs.items()
                if name not in found and (not found.isdisjoint(needs) or found & {*_above(name)})
            }
            found |= more
            growing = bool(more)
        return found

    def forget(self, names: Collection[str]) -> None:
        """The modules of these names are no longer there."""
        for name in names:
            for table in (self._needs, self._containers, self._sizes, self.effects):
                table.pop(name, None)
            self.searching.discard(name)
        gone = {*names}
        self._owners = {one: name for one, name in self._owners.items() if name not in gone}

    def _needed_by(self, name: str) -> set[str]:
        found: set[str] = set()
        waiting = [name]
        while waiting:
            for needed in self._needs.get(waiting.pop(), ()):
                if needed in self._sizes and needed not in found and needed != name:
                    found.add(needed)
                    waiting.append(needed)
        return found

    def _measure(self, name: str, module: ModuleType) -> None:
        self._containers[name] = [
            (container, length)
            for container, length in _containers(vars(module), self._needs)
            if self._owners.setdefault(id(container), name) == name
        ]
        self._sizes[name] = self._size(name)

    def _size(self, name: str) -> list[int]:
        return [length(container) for container, length in self._containers[name]]


def drop(names: Iterable[str]) -> list[str]:
    """Removes modules from this process. Returns those of which something is still referred to, by
    a registry, a cache or another module; garbage that was frozen counts."""
    witnesses: list[tuple[str, weakref.ref[Any]]] = []
    for name in names:
        module = sys.modules.pop(name, None)
        if module is None:
            continue
        above, _, last = name.rpartition(".")
        if vars(sys.modules.get(above, module)).get(last) is module:
            delattr(sys.modules[above], last)
        own = [value for value in vars(module).values() if _is_of(value, name)]
        witnesses += ((name, weakref.ref(one)) for one in (module, *own))
        del module, own
    for clear in getattr(typing, "_cleanups", ()):  # its caches hold classes
        clear()
    gc.collect()
    return sorted({name for name, witness in witnesses if witness() is not None})


def _classes(namespace: Mapping[str, Any], name: str) -> list[type]:
    values = [*namespace.values()]
    return [one for one in values if issubclass(type(one), type) and _is_of(one, name)]


def _is_of(value: object, name: str) -> bool:
    """Whether it is a class or function of this module. Runs no code of authors."""
    if issubclass(type(value), type):
        return bool(type.__getattribute__(value, "__module__") == name)
    return isinstance(value, FunctionType) and value.__module__ == name


def _containers(
    namespace: Mapping[str, Any], modules: Collection[str]
) -> Iterator[tuple[Any, Callable[[Any], int]]]:
    """The containers in a module, in its classes and in instances of the authors' classes."""
    name = namespace.get("__name__")
    for value in [*namespace.values()]:
        if length := _length_of(value):
            yield value, length
            continue
        inside: Mapping[str, Any] = {}
        if issubclass(type(value), type):
            inside = vars(value) if _is_of(value, str(name)) else {}
        elif type(value).__module__ in modules:
            inside = getattr(value, "__dict__", {})
        for part in [*inside.values()]:
            if length := _length_of(part):
                yield part, length


def _length_of(value: object) -> Callable[[Any], int] | None:
    kind = type(value)
    return next((length for base, length in _LENGTHS if issubclass(kind, base)), None)


def _names_in(code: CodeType) -> set[str]:
    found = {*code.co_names}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names_in(constant)
    return found


def _absolute(name: str, namespace: Mapping[str, Any], level: int) -> str:
    if not level:
        return name
    package = namespace.get("__package__") or namespace.get("__name__", "").rpartition(".")[0]
    above = package.split(".")[: package.count(".") + 2 - level]
    return ".".join([*above, *([name] if name else [])])


def _above(name: str) -> Iterator[str]:
    while name := name.rpartition(".")[0]:
        yield name


def _surroundings() -> tuple[Any, ...]:
    """State of the process that modules often change: settings, and what has to be closed."""
    root = logging.getLogger()
    return (
        os.environ.copy(),
        tuple(sys.path),
        len(sys.meta_path),
        sys.getrecursionlimit(),
        socket.getdefaulttimeout(),
        len(warnings.filters),
        (root.level, len(root.handlers)),
        len(getattr(weakref.finalize, "_registry", ())),
        _open_files(),
    )


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # less work than a Path
    except OSError:
        return 0
