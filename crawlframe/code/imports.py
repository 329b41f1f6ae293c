"""Imports: which of the authors' files a spider depends on."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Collection, Iterable
from types import ModuleType

from crawlframe.code.owners import FILE as OWNERS
from crawlframe.code.registry import Registry
from crawlframe.code.version import digest, files

DYNAMIC = {"import_module", "__import__", "exec", "eval"}


class Dependencies:
    """Dependencies of the spiders of one registry, as far as their source says."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._loaded = registry.loaded
        self._imports: dict[str, set[str] | None] = {}
        # The readers of a file that is no module are unknown.
        trees = [registry.directory, *registry.files]
        paths = (path for tree in trees for path in files(tree))
        data = (p for p in paths if p.suffix != ".py" and p.name != OWNERS)
        self._data = digest(data, registry.directory)

    def mark(self, spider: str) -> str:
        """Returns a digest of all code that the spider depends on: of its module and the modules
        that it imports, directly or indirectly, and of all files that are no modules. If that is
        unknown, as for modules that are imported by a computed name, of all code."""
        paths = self._paths(self._registry.spiders[spider].__module__)
        if paths is None:
            paths = self._loaded.keys()
        code = digest(sorted(paths), self._registry.directory, lambda path: self._loaded[path])
        return f"{code}{self._data}"

    def _paths(self, module: str) -> Collection[str] | None:
        seen: set[str] = set()
        waiting = [module]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name not in self._imports:
                self._imports[name] = self._read(name)
            imported = self._imports[name]
            if imported is None:
                return None
            waiting += imported - seen
        found = {path for name in seen if (path := self._file(sys.modules.get(name)))}
        return found or None

    def _read(self, name: str) -> set[str] | None:
        module = sys.modules.get(name)
        path = self._file(module)
        if module is None or path is None:
            return None if module is None else set()
        if not path.endswith(".py"):  # an extension module
            return set()
        package = module.__package__ or ""
        found = {name.rpartition(".")[0]}
        try:
            tree = ast.parse("".join(linecache.getlines(path)))
        except SyntaxError:
            return None
        for node in ast.walk(tree):
            names = _names(node, package)
            if names is None:
                return None
            found |= names
        parents = {
            ".".join(one.split(".")[:n]) for one in found for n in range(1, one.count(".") + 2)
        }
        return {one for one in parents if self._file(sys.modules.get(one)) is not None}

    def _file(self, module: ModuleType | None) -> str | None:
        """The file of a module of the authors."""
        file = getattr(module, "__file__", None)
        return file if file in self._loaded else None


def _names(node: ast.AST, package: str) -> set[str] | None:
    match node:
        case ast.Import(names):
            return {alias.name for alias in names}
        case ast.ImportFrom(target, names, level):
            base = target or ""
            if level:
                above = package.split(".")[: len(package.split(".")) - level + 1]
                base = ".".join([*above, *([target] if target else [])])
            return {base, *(f"{base}.{alias.name}" for alias in names)}
        case ast.Call(ast.Name(function) | ast.Attribute(attr=function), arguments):
            if function in DYNAMIC:
                match arguments:
                    case [ast.Constant(str(name))] if not name.startswith("."):
                        return {name}
                return None
    return set()


def marks(registry: Registry, spiders: Iterable[str]) -> dict[str, str]:
    """Returns the mark of each of these spiders."""
    names = [*spiders]
    if not names:
        return {}
    dependencies = Dependencies(registry)
    return {name: dependencies.mark(name) for name in names}
