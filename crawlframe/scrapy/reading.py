"""ClassSource: facts about a spider class from its source, read and not run."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Container, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from scrapy import signals

# Methods that change their object, or the file that it writes to.
CHANGING = frozenset(
    {
        "add", "append", "appendleft", "clear", "difference_update", "discard",
        "export_item", "extend", "extendleft", "insert", "intersection_update", "pop",
        "popitem", "popleft", "remove", "reverse", "rotate", "setdefault", "sort",
        "symmetric_difference_update", "update", "write", "writelines", "writerow",
        "writerows",
    }
)  # fmt: skip
SET, CHANGED = "set", "changed"
_SIGNALS = frozenset(name for name in vars(signals) if name[0] != "_")
_SCRAPYS = frozenset(
    {"crawler", "logger", "settings", "stats"}
)  # attributes with objects of Scrapy
_SPIDER = "spider"  # the argument of components that is the spider
_STARTS = frozenset({"start", "start_requests"})  # run once, in one worker
# They run in every worker, before anything else.
_BEGINNINGS = frozenset(
    {
        "__init__", "__post_init__", "_set_crawler", "engine_started", "from_crawler",
        "from_settings", "open_spider", "spider_opened", "update_settings",
    }
)  # fmt: skip
_BRANCHES = ast.If | ast.For | ast.AsyncFor | ast.While | ast.Try | ast.Match


Branches = tuple[tuple[int, str], ...]


class Use(NamedTuple):
    """An attribute of self in one line of one method."""

    name: str
    method: str
    file: str
    line: int
    writes: str  # "", SET or CHANGED
    stale: bool  # it has a value of an earlier run of a method


class Need(NamedTuple):
    """``kind``: "engine" for crawler.engine.``name``, "signal", or "lambda" for a callback."""

    kind: str
    name: str
    file: str
    line: int


def parsed(file: str) -> ast.Module:
    """The source in a file, without anything if it cannot be read."""
    try:
        return _parsed(file, Path(file).stat().st_mtime_ns)
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


@lru_cache(maxsize=1024)
def _parsed(file: str, modified: int) -> ast.Module:
    return ast.parse(Path(file).read_bytes())


@lru_cache(maxsize=1024)
def _classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


class ClassSource:
    """A spider class with its bases that are not Scrapy's."""

    def __init__(self, spider: type) -> None:
        self.nodes: list[tuple[str, ast.ClassDef]] = []
        for kind in spider.__mro__:
            if kind is object or kind.__module__.partition(".")[0] == "scrapy":
                continue
            try:
                file = inspect.getfile(kind)
            except (TypeError, OSError):
                continue
            node = _classes(parsed(file)).get(kind.__name__)
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
    def state(self) -> list[str]:
        """State on self between callbacks: one sentence for each attribute, with its place."""
        uses = [use for use in self.uses if use.method not in self._beginnings]
        found: dict[str, str] = {}
        for write in (use for use in uses if use.writes and use.name not in found):
            for read in sorted(uses, key=lambda one: one.method == write.method):
                once = _STARTS.issuperset((read.method, write.method))
                if read.stale and read.name == write.name and not once:
                    found[write.name] = (
                        f"{write.file}:{write.line}: self.{write.name} is changed in "
                        f"{write.method} and read in {read.method} (line {read.line})"
                    )
                    break
        return [*found.values()]

    @cached_property
    def rebound(self) -> set[str]:
        """The attributes that each object sets before anything else."""
        first = self._beginnings
        return {use.name for use in self.uses if use.writes == SET and use.method in first}

    @cached_property
    def _beginnings(self) -> set[str]:
        """The methods that run in every worker first, and the methods that they call."""
        found, left = set(), [*_BEGINNINGS, *(m for _, node in self.nodes for m in _opening(node))]
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
        """Uses of Scrapy in the methods that need a look."""
        return [need for file, node in self.nodes for need in _needs(node, file)]


def _needs(node: ast.AST, file: str) -> Iterator[Need]:
    for one in ast.walk(node):
        match one:
            case ast.Attribute(value=ast.Attribute(attr="engine"), attr=name):
                yield Need("engine", name, file, one.lineno)
            case ast.Attribute(attr=name) | ast.Name(id=name, ctx=ast.Load()) if name in _SIGNALS:
                yield Need("signal", name, file, one.lineno)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
                sends = name.endswith(("Request", "follow", "follow_all"))
                asked = [(given, 1) for given in args[1:2] if sends]
                callbacks = [k for k in one.keywords if k.arg in ("callback", "errback")]
                asked += [(k.value, int(k.arg == "callback")) for k in callbacks]
                for (
                    given,
                    most,
                ) in asked:  # arguments of a partial that can travel, and its function
                    match given:
                        case ast.Call(func=func, args=args) if len(args) > most:
                            is_lost = ast.unparse(func).endswith("partial")
                        case _:
                            is_lost = isinstance(given, ast.Lambda)
                    if is_lost:
                        yield Need("lambda", "", file, given.lineno)


def _opening(node: ast.ClassDef) -> Iterator[str]:
    """The methods that are connected to a signal which comes first."""
    for one in ast.walk(node):
        match one:
            case ast.Call(func=ast.Attribute(attr="connect"), args=[ast.Attribute(attr=name), *_]):
                if any(word in ast.unparse(one) for word in ("spider_opened", "engine_started")):
                    yield name


def _uses(method: ast.FunctionDef | ast.AsyncFunctionDef, file: str) -> Iterator[Use]:
    arguments = method.args.posonlyargs + method.args.args
    if not arguments:
        return
    fresh: dict[str, list[Branches]] = {}
    for name, line, writes, path in _events(method, arguments[0].arg, ()):
        known = any(path[: len(one)] == one for one in fresh.get(name, ()))
        if writes == SET:
            fresh.setdefault(name, []).append(path)
        yield Use(name, method.name, file, line, writes, writes != SET and not known)


def _events(node: ast.AST, me: str, path: Branches) -> Iterator[tuple[str, int, str, Branches]]:
    """(attribute, line, writes, the branches around it) in the order of execution."""
    parts = [*ast.iter_child_nodes(node)]
    match node:
        case ast.Assign(targets=targets, value=value):
            parts = [value, *targets]
        case ast.AugAssign(target=target) if name := _attribute(target, me):
            yield name, node.lineno, CHANGED, path
            parts = [node.value]
        case ast.AnnAssign(target=target, value=value):
            parts = [value, target] if value else []
        case ast.Call(func=ast.Attribute(value=value, attr=verb)) if verb in CHANGING:
            if name := _attribute(value, me):
                yield name, node.lineno, CHANGED, path
        case (
            ast.Subscript(value=value, ctx=ast.Store() | ast.Del())
            | ast.Attribute(value=ast.Attribute() as value, ctx=ast.Store() | ast.Del())
        ):
            if name := _attribute(value, me):
                yield name, node.lineno, CHANGED, path
        case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=context) if owner in (
            me,
            _SPIDER,
        ):
            yield name, node.lineno, "" if isinstance(context, ast.Load) else SET, path
    if isinstance(node, _BRANCHES):
        for field, value in ast.iter_fields(node):
            inner = (*path, (id(node), field)) if isinstance(value, list) else path
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    yield from _events(part, me, inner)
        return
    for part in parts:
        yield from _events(part, me, path)


def _attribute(node: ast.expr, me: str) -> str:
    """The attribute of self that this is, or is a part of."""
    attribute = ""
    while isinstance(node, ast.Subscript | ast.Attribute):
        attribute = node.attr if isinstance(node, ast.Attribute) else attribute
        node = node.value
    mine = isinstance(node, ast.Name) and node.id in (me, _SPIDER)
    return attribute if mine and attribute not in _SCRAPYS else ""


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
