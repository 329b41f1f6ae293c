"""Garbage: modules that are removed from a process, and freed without a look at all that stays."""

from __future__ import annotations

import ctypes
import gc
import sys
import typing
import weakref
from collections.abc import Collection
from types import FunctionType, ModuleType
from typing import Any

MAX_OBJECTS = 100_000  # objects that are looked at apart from the others

# Together they move an object to the youngest generation of the garbage collector.
_untrack, _track = (
    ctypes.PYFUNCTYPE(None, ctypes.py_object)((name, ctypes.pythonapi))
    for name in ("PyObject_GC_UnTrack", "PyObject_GC_Track")
)


def drop(names: Collection[str]) -> list[str]:
    """Removes modules from this process. Returns those of which something is still referred to, by
    a registry, a cache or another module.

    Only objects that lead from the modules are collected, and all others are frozen (gc.freeze):
    a whole collection beside 5,000 modules takes a second, and copies memory that is shared with
    other processes."""
    witnesses = _remove(names)
    for clear in getattr(typing, "_cleanups", ()):  # its caches hold classes
        clear()
    gc.collect()
    if _held(witnesses):  # maybe by garbage that is frozen
        gc.unfreeze()
        gc.collect()
        gc.freeze()
    return _held(witnesses)


def _remove(names: Collection[str]) -> list[tuple[str, weakref.ref[Any]]]:
    """Removes modules, and freezes all but their objects. Returns references to objects of each."""
    witnesses: list[tuple[str, weakref.ref[Any]]] = []
    modules: list[Any] = []
    gc.collect()  # of what came since the last time
    for name in names:
        module: Any = sys.modules.pop(name, None)
        if module is None:
            continue
        modules.append(module)
        above, _, last = name.rpartition(".")
        if vars(sys.modules.get(above, module)).get(last) is module:
            delattr(sys.modules[above], last)
        own = [value for value in vars(module).values() if _is_of(value, name)]
        # A function refers to the specification, not to the module.
        own += [module.__spec__] if module.__spec__ else []
        witnesses += ((name, weakref.ref(one)) for one in (module, *own))
    gc.freeze()
    for one in _led_to(modules, names):
        _untrack(one)
        _track(one)
    return witnesses


def _held(witnesses: list[tuple[str, weakref.ref[Any]]]) -> list[str]:
    return sorted({name for name, witness in witnesses if witness() is not None})


def _led_to(modules: list[Any], names: Collection[str]) -> list[Any]:
    """The objects to which modules lead, but not through other modules or their classes."""
    apart = {id(getattr(module, "__dict__", None)) for module in [*sys.modules.values()]}
    apart.update(map(id, sys.meta_path))  # to which the loader of a module leads
    found: dict[int, Any] = {}
    waiting = [*modules]
    while waiting and len(found) < MAX_OBJECTS:
        one = waiting.pop()
        if id(one) in found or id(one) in apart or not gc.is_tracked(one):
            continue
        if issubclass(type(one), ModuleType) and one not in modules:
            continue
        if issubclass(type(one), type) and _module_of(one) not in names:
            continue
        found[id(one)] = one
        waiting += gc.get_referents(one)
    return [*found.values()]


def _is_of(value: object, name: str) -> bool:
    """Whether it is a class or function of this module. Runs no code of authors."""
    if issubclass(type(value), type):
        return bool(_module_of(value) == name)
    return isinstance(value, FunctionType) and value.__module__ == name


def _module_of(kind: Any) -> Any:
    return type.__getattribute__(kind, "__module__")
