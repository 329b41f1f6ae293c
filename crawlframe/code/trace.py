"""Trace: the authors' modules as they are imported: the modules that each one needs, and whether
its import has effects beyond itself."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import CodeType, ModuleType
from typing import Any

from crawlframe.code.effects import State, closes, surroundings

MAX_PENDING = 16  # modules after whose import the states of others are compared
# Names in the code of a module that looks for modules or other files, ...
SEARCHES = {
    *("iter_modules", "walk_packages", "walk_modules", "find_modules", "find_spec", "resolve_name"),
    *("listdir", "scandir", "iterdir", "walk", "glob", "iglob", "rglob"),
    *("exists", "isfile", "isdir", "is_file", "is_dir"),
}
# ... and of one that may depend on any other.
UNTRACED = {
    *("exec", "run_path", "run_module", "exec_module", "load_module", "reload", "__subclasses__"),
}


class Trace:
    """Use it from one thread. ``effects``: module -> what its import changed besides itself."""

    def __init__(self) -> None:
        self.effects: dict[str, str] = {}
        self.searching: set[str] = set()  # modules whose code looks for modules or other files
        self._untraced: set[str] = set()
        self._needs: dict[str, set[str]] = {}  # module -> names that its import asked for
        self._words: dict[str, set[str]] = {}  # module -> names and strings in its code
        self._absent: set[str] = set()  # modules that were asked for, and do not exist
        self._states: dict[str, State] = {}
        self._owners: dict[int, str] = {}
        self._around: tuple[Any, ...] = ()  # after the last import
        self._pending: list[str] = []  # modules whose effects are not known yet

    def run(self, name: str, code: Callable[[], None], module: ModuleType) -> None:
        """Runs the code of a module that is imported. Raises its errors."""
        self._needs[name] = set()
        before = self._around
        try:
            code()
        finally:
            self._states[name] = State(module, self._owners)
            self._around = surroundings()
            if self._around != before:
                self.effects[name] = "the state of the process"
            if closes(module):
                self.effects[name] = "something when it is freed"
            self._pending.append(name)
            if len(self._pending) >= MAX_PENDING:
                self._find_effects()

    def note_code(self, name: str, code: CodeType) -> None:
        """Takes the code of a module before it runs."""
        words = self._words[name] = _words_in(code)
        if words & SEARCHES:
            self.searching.add(name)
        if words & UNTRACED:
            self._untraced.add(name)

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
            if needs is None:
                return real_import(name, globals, locals, fromlist or (), level)
            base = _absolute(name, globals or {}, level)
            needs.add(base)
            needs.update(f"{base}.{part}" for part in fromlist or ())
            with self._noting_absence():
                return real_import(name, globals, locals, fromlist or (), level)

        def traced_module(name: str, package: str | None = None) -> ModuleType:
            needs = self._needs.get(sys._getframe(1).f_globals.get("__name__", ""))
            if needs is not None:
                needs.add(importlib.util.resolve_name(name, package) if package else name)
            with self._noting_absence():
                return real_import_module(name, package)

        builtins.__import__, importlib.import_module = traced, traced_module
        self._around = surroundings()
        try:
            yield
        finally:  # a module may have put another function around ours
            if builtins.__import__ is traced:
                builtins.__import__ = real_import
            if importlib.import_module is traced_module:
                importlib.import_module = real_import_module
            self._find_effects()

    @contextmanager
    def _noting_absence(self) -> Iterator[None]:
        try:
            yield
        except ModuleNotFoundError as error:
            if error.name:
                self._absent.add(error.name)
            raise

    def came(self, known: Collection[str]) -> str:
        """A module that was asked for in vain, and exists now; "" if there is none but ``known``
        ones."""
        importlib.invalidate_caches()
        for name in self._absent.difference(known):
            above = name.rpartition(".")[0]
            with suppress(ImportError, ValueError, AttributeError):
                if (not above or above in sys.modules) and importlib.util.find_spec(name):
                    return name
        return ""

    def dependents(self, names: Collection[str]) -> set[str]:
        """These modules, and all that may depend on one of them, directly or indirectly; of a
        package, also all modules in it."""
        found = {*names}
        if found:
            found |= self._untraced
        growing = True
        while growing:
            ends = {name.rpartition(".")[2] for name in found}
            more = {
                name
                for name, needs in self._needs.items()
                if name not in found
                and (
                    not found.isdisjoint(needs)
                    or not found.isdisjoint(_above(name))
                    or self._names_one(name, found, ends)
                )
            }
            found |= more
            growing = bool(more)
        return found

    def _names_one(self, name: str, found: set[str], ends: set[str]) -> bool:
        """Whether a module names one of these without importing it: as an attribute of a package
        that it imports, or in a string."""
        words = self._words.get(name, set())
        if not found.isdisjoint(words):
            return True
        packages = {*self._needs[name]}
        return any(f"{package}.{end}" in found for end in ends & words for package in packages)

    def forget(self, names: Collection[str]) -> None:
        """The modules of these names are no longer there."""
        for name in names:
            for table in (self._needs, self._words, self._states, self.effects):
                table.pop(name, None)
            self.searching.discard(name)
            self._untraced.discard(name)
        gone = {*names}
        self._owners = {one: name for one, name in self._owners.items() if name not in gone}

    def _find_effects(self) -> None:
        """Finds out which modules the import of the pending ones has changed. Each that needs a
        changed one may have changed it."""
        needed = {name: self._needed_by(name) for name in self._pending}
        for other in set().union(*needed.values()):
            if self._states[other].has_changed():
                for name, others in needed.items():
                    if other in others:
                        self.effects[name] = other
        self._pending.clear()

    def _needed_by(self, name: str) -> set[str]:
        found: set[str] = set()
        waiting = [name]
        while waiting:
            more = {one for one in self._needs.get(waiting.pop(), ()) if one in self._states}
            waiting += more - found
            found |= more
        return found - {name}


def _words_in(code: CodeType) -> set[str]:
    """The names in a code and in the functions in it, and the strings that may name a module."""
    found = {*code.co_names}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _words_in(constant)
        elif isinstance(constant, str) and "." in constant and " " not in constant:
            found |= {constant, constant.rpartition(".")[0]}
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
