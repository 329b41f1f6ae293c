"""ClassSource: what the source of a spider class says, read and not run."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Container, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

# Methods that change the object they belong to.
_CHANGING = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft",
        "remove", "setdefault", "update",
    }
)  # fmt: skip
# They run in every worker, before anything else.
SET, CHANGED = "set", "changed"
_STARTS = frozenset({"start", "start_requests"})  # run once, in one worker
_BEGINNINGS = frozenset({"__init__", "from_crawler", "_set_crawler", "update_settings"})


class Use(NamedTuple):
    """An attribute of self in one line of one method."""

    name: str
    method: str
    file: str
    line: int
    writes: str  # "", SET or CHANGED


class Need(NamedTuple):
    """``kind``: "engine" for crawler.engine.``name``, "signal", or "lambda" for a callback."""

    kind: str
    name: str
    file: str
    line: int


class State(NamedTuple):
    """An attribute of self that one method changes and another reads."""

    name: str
    file: str
    line: int  # of the change
    writer: str
    reader: str
    read_line: int

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: self.{self.name} is changed in {self.writer} and read in "
            f"{self.reader} (line {self.read_line}), which may run in another worker"
        )


@lru_cache(maxsize=1024)
def _classes(file: str, modified: int) -> dict[str, ast.ClassDef]:
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


class ClassSource:
    """A spider class with those of its bases that are not Scrapy's."""

    def __init__(self, spider: type) -> None:
        self.nodes: list[tuple[str, ast.ClassDef]] = []
        for kind in spider.__mro__:
            if kind is object or kind.__module__.partition(".")[0] == "scrapy":
                continue
            try:
                file = inspect.getfile(kind)
                modified = Path(file).stat().st_mtime_ns
            except (TypeError, OSError):
                continue
            node = _classes(file, modified).get(kind.__name__)
            if node is not None:
                self.nodes.append((file, node))

    @cached_property
    def uses(self) -> list[Use]:
        """The attributes of self that methods use, in the order of the source."""
        return [
            use
            for file, node in self.nodes
            for method in node.body
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            for use in _uses(method, file)
        ]

    @cached_property
    def unset(self) -> list[str]:
        """Names that are read of self or kwargs, and that nothing sets: optional arguments."""
        written = {use.name for use in self.uses if use.writes}
        first = self._beginnings
        asked = [name for _, node in self.nodes for name in _asked(node, first)]
        read = [use.name for use in self.uses if not use.writes]
        names = [name for name in [*asked, *read] if not name.startswith("_")]
        return [name for name in dict.fromkeys(names) if name in asked or name not in written]

    @cached_property
    def state(self) -> list[State]:
        """What is kept on self between callbacks, once for each attribute."""
        first = self._beginnings
        uses = [use for use in self.uses if use.method not in first]
        found: dict[str, State] = {}
        for write in uses:
            if write.writes and write.name not in found:
                read = next((read for read in uses if _depends(read, write)), None)
                if read is not None:
                    found[write.name] = State(
                        write.name, write.file, write.line, write.method, read.method, read.line
                    )
        return [*found.values()]

    @property
    def _beginnings(self) -> set[str]:
        """The methods that run in every worker before anything else, and those that they call."""
        found, left = set(), [*_BEGINNINGS]
        while left:
            found.add(method := left.pop())
            called = {use.name for use in self.uses if use.method == method} - found
            left += called & self._methods
        return found

    @cached_property
    def _methods(self) -> set[str]:
        return {use.method for use in self.uses}

    @cached_property
    def meta_keys(self) -> dict[str, tuple[str, int]]:
        """Texts that are keys of meta, with file and line."""
        found: dict[str, tuple[str, int]] = {}
        for file, node in self.nodes:
            for name, line in _meta_keys(node):
                found.setdefault(name, (file, line))
        return found

    @cached_property
    def needs(self) -> list[Need]:
        """What the methods use of Scrapy that has to be looked at."""
        return [need for file, node in self.nodes for need in _needs(node, file)]


def _needs(node: ast.AST, file: str) -> Iterator[Need]:
    for one in ast.walk(node):
        match one:
            case ast.Attribute(value=ast.Attribute(attr="engine"), attr=name):
                yield Need("engine", name, file, one.lineno)
            case ast.Attribute(value=ast.Name(id="signals"), attr=name):
                yield Need("signal", name, file, one.lineno)
            case ast.keyword(arg="callback" | "errback", value=ast.Lambda() as given):
                yield Need("lambda", "", file, given.lineno)


def _depends(read: Use, write: Use) -> bool:
    """Whether a read gets what an earlier run of a method wrote."""
    if read.writes or read.name != write.name:
        return False
    if (read.file, read.line) == (write.file, write.line):
        return False
    if read.method == write.method:  # set and used at once is no state
        return write.writes == CHANGED and write.method not in _STARTS
    return not _STARTS.issuperset((read.method, write.method))


def _uses(method: ast.FunctionDef | ast.AsyncFunctionDef, file: str) -> Iterator[Use]:
    arguments = method.args.posonlyargs + method.args.args
    if not arguments:
        return
    me = arguments[0].arg
    for node in ast.walk(method):
        match node:
            case ast.AugAssign(target=target):
                if name := _attribute(target, me):
                    yield Use(name, method.name, file, node.lineno, CHANGED)
            case ast.Call(func=ast.Attribute(value=value, attr=verb)) if verb in _CHANGING:
                if name := _attribute(value, me):
                    yield Use(name, method.name, file, node.lineno, CHANGED)
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                if name := _attribute(value, me):
                    yield Use(name, method.name, file, node.lineno, CHANGED)
            case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=context) if owner == me:
                writes = "" if isinstance(context, ast.Load) else SET
                yield Use(name, method.name, file, node.lineno, writes)


def _attribute(node: ast.expr, me: str) -> str:
    """The attribute of self that this is, or is a part of."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == me:
        return node.attr
    return ""


def _asked(node: ast.ClassDef, first: Container[str]) -> Iterator[str]:
    """The names in getattr(self, "name", ...), and in kwargs.get("name"), kwargs["name"] and the
    like, if they are identifiers. Only the methods in ``first`` have the arguments in kwargs."""
    for part in node.body:
        is_late = (
            isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name not in first
        )
        for name, of_kwargs in _asked_in(part):
            if name.isidentifier() and not (of_kwargs and is_late):
                yield name


def _asked_in(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """(name, whether it is one of kwargs)"""
    for one in ast.walk(node):
        match one:
            case ast.Call(
                func=ast.Name(id="getattr"), args=[ast.Name(id="self"), ast.Constant(str(name)), *_]
            ):
                yield name, False
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="kwargs"), attr="get" | "pop"),
                args=[ast.Constant(str(name)), *_],
            ):
                yield name, True
            case ast.Subscript(value=ast.Name(id="kwargs"), slice=ast.Constant(str(name))):
                yield name, True


def _meta_keys(node: ast.AST) -> Iterator[tuple[str, int]]:
    for one in ast.walk(node):
        match one:
            case ast.keyword(arg="meta", value=ast.Dict(keys=keys)):
                for key in keys:
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield key.value, key.lineno
            case ast.Subscript(
                value=ast.Attribute(attr="meta"), slice=ast.Constant(str(name)), ctx=ast.Store()
            ):
                yield name, one.lineno
