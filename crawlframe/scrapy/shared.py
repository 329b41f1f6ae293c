"""Shared state: values that classes and modules keep in memory from task to task. The source of the
functions that a spider reaches is compared with the values that their names have now."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping, Set
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

from crawlframe.code.source import FRAMEWORK, SourceFinder
from crawlframe.scrapy.reading import CHANGING, ClassSource, parsed

Method = tuple[FunctionType, type | None]  # and its class; None: a function

# Packages whose objects do not change, or not so that a task would notice.
_INERT = frozenset(
    {
        "_thread", "builtins", "datetime", "decimal", "functools", "ipaddress",
        "itemloaders", "logging", "loguru", "lxml", "parsel", "pathlib", "pytz", "re",
        "scrapy", "string", "structlog", "types", "typing", "uuid", "w3lib", "zoneinfo",
    }
)  # fmt: skip
# Methods that only read a container, and functions that read it as an argument.
_READING = frozenset(
    {
        "Counter", "FormRequest", "JsonRequest", "Request", "all", "any", "choice",
        "choices", "copy", "count", "deepcopy", "dict", "dumps", "enumerate", "extend",
        "float", "follow", "follow_all", "format", "from_response", "frozenset", "get",
        "index", "int", "isinstance", "items", "iter", "join", "keys", "len", "list",
        "map", "max", "min", "print", "replace", "repr", "reversed", "sample", "set",
        "sorted", "str", "sum", "tuple", "union", "update", "urlencode", "values", "zip",
    }
)  # fmt: skip

_CHANGE: Any = (list, set, dict, bytearray, functools._lru_cache_wrapper, Iterator)
_source = functools.lru_cache(maxsize=1024)(ClassSource)


def shared_by(classes: list[type]) -> list[str]:
    """State that the methods of these classes, the functions of their modules, and the authors'
    code that they call keep in memory: on classes, in modules, and in objects of other classes. One
    sentence for each name."""
    beside = (one for kind in classes for one in vars(sys.modules[kind.__module__]).values())
    plain = [one for one in beside if isinstance(one, FunctionType)]
    left = [one for value in [*classes, *plain] for one in methods_of(value)]
    seen, found = {*left}, dict[tuple[str, str], str]()
    while left:
        here, reached = _read(*left.pop())
        found = {**here, **found}
        left += reached - seen
        seen |= reached
    kinds = {kind: None for _, kind in seen if kind is not None}
    objects = (one for kind in [*classes, *kinds] for one in _source(kind).state)
    return [*dict.fromkeys([*objects, *found.values()])]


@functools.lru_cache(maxsize=4096)
def methods_of(value: Any, kind: type | None = None) -> tuple[Method, ...]:
    """The authors' function behind a value, or the functions of a class with its bases."""
    if isinstance(value, type):
        parts = (part for base in value.__mro__[:-1] for part in vars(base).values())
        plain = (one for one in parts if callable(one) or hasattr(one, "__get__"))
        return sum((methods_of(one, value) for one in plain if not isinstance(one, type)), ())
    for name in ("__func__", "fget", "func"):
        value = getattr(value, name, value)
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, FunctionType):
        file = value.__code__.co_filename
        if not file.startswith(FRAMEWORK) and SourceFinder.install().owns(file):
            return ((value, kind),)
    return ()


@functools.lru_cache(maxsize=4096)
def _read(function: FunctionType, kind: type | None) -> tuple[dict[Any, str], set[Method]]:
    """State that one function keeps, by file and name, and the functions that it reaches."""
    code = function.__code__
    file = code.co_filename
    node = _by_line(parsed(file)).get(code.co_firstlineno)
    if node is None:
        return {}, set()
    reached = set[Method]()
    try:
        scope = _Scope(node, function, kind)
        changes, reached = [*scope.changes()], scope.reached
    except Exception as error:  # of odd objects, when they are inspected
        changes = [(f"something ({error!r:.80})", code.co_firstlineno, False)]
    found = {
        (
            file,
            name,
        ): f"{file}:{line}: {name} {'is' if sure else 'may be'} changed in {code.co_name}"
        for name, line, sure in changes
    }
    return found, reached


@functools.lru_cache(maxsize=1024)
def _by_line(tree: ast.Module) -> dict[int, ast.AST]:
    """The functions of a module, by the first line of each, which may be a decorator's."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    found = [node for node in ast.walk(tree) if isinstance(node, kinds)][::-1]  # the outer one wins
    return {
        min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", ()))]): n for n in found
    }


class _Scope:
    """A function, its names, and the functions that it reaches, known after ``changes``."""

    def __init__(self, node: ast.AST, function: FunctionType, kind: type | None) -> None:
        self.reached = set[Method]()
        self._kind, self._outside = kind, function.__globals__
        self._nodes, self._up = [node], dict[ast.AST, ast.AST]()
        for one in self._nodes:
            self._up |= dict.fromkeys(children := [*ast.iter_child_nodes(one)], one)
            self._nodes += children
        self._globals = {n for one in self._nodes if isinstance(one, ast.Global) for n in one.names}
        self._local = {
            getattr(one, "arg", None) or getattr(one, "id", "")
            for one in self._nodes
            if isinstance(one, ast.arg)
            or (isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
        } - self._globals
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        defaults = zip(names[::-1], (function.__defaults__ or ())[::-1], strict=False)
        given = {**dict(defaults), **(function.__kwdefaults__ or {})}  # one object for all calls
        self._values = {name: value for name, value in given.items() if not inert(value)}
        self._me = names[0] if names and kind is not None else ""
        self._rebound = _source(kind).rebound if kind is not None else set()
        if isinstance(inspect.getattr_static(kind, function.__name__, None), classmethod):
            self._values[self._me], self._me = kind, ""
        for one in self._nodes:
            if isinstance(one, ast.For) and isinstance(one.target, ast.Name):
                many = self._value(one.iter)
                if isinstance(many, list | tuple):
                    self._values[one.target.id] = next((x for x in many if not inert(x)), None)

    def changes(self) -> Iterator[tuple[str, int, bool]]:
        """(name, line, whether it is certain) of changed state, or possibly changed state."""
        for node in self._nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name in self._globals:
                    yield name, node.lineno, True
                case ast.Call(func=ast.Name(id="globals" | "exec" as name)):
                    yield f"{name}()", node.lineno, False
                case (
                    ast.Attribute(value=owner, ctx=ast.Store() | ast.Del())
                    | ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[owner, *_])
                ) if self._value(owner) is not None:
                    yield ast.unparse(node), node.lineno, True
                case ast.AugAssign(target=target) if not inert(self._value(target)):
                    yield ast.unparse(target), node.lineno, True
                case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                    value = self._value(node)
                    if callable(value) and not self._is_mine(node):
                        self.reached.update(methods_of(value))
                    if not inert(value) and (sure := self._changes(node, value)) is not None:
                        yield ast.unparse(node), node.lineno, sure

    def _changes(self, node: Any, value: Any) -> bool | None:
        """Whether the use of an object changes it; None if it does not, False if that is
        unknown."""
        known = isinstance(value, list | tuple | Mapping | Set)
        flat = known and all(map(inert, value.values() if isinstance(value, Mapping) else value))
        while True:
            match up := self._up[node]:
                case ast.Subscript(ctx=ast.Load(), slice=index):
                    if flat or index is node:
                        return None
                case ast.Subscript():
                    return True
                case ast.Attribute(attr=name) if name in CHANGING:
                    return True
                case ast.Attribute(attr=name):
                    return None if known and name in _READING else False
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                    return None if known and up.func is not node and name in _READING else False
                case ast.keyword() if up.arg is not None:
                    pass
                case ast.Dict() if up.keys[up.values.index(node)] is not None:
                    return False
                case (
                    ast.keyword() | ast.Compare() | ast.BinOp() | ast.For() | ast.comprehension()
                    | ast.FormattedValue() | ast.Starred() | ast.UnaryOp() | ast.If() | ast.While()
                    | ast.Expr() | ast.YieldFrom() | ast.withitem() | ast.Dict()
                ):  # fmt: skip
                    return None
                case _:
                    return False
            node = up

    def _is_mine(self, node: ast.AST) -> bool:
        """Whether an expression is an attribute of self."""
        owner = node.value if isinstance(node, ast.Attribute) else None
        return isinstance(owner, ast.Name) and owner.id == self._me != ""

    def _value(self, node: ast.AST) -> Any:
        """The object of an expression; None if it is not shared."""
        match node:
            case ast.Name(id=name):
                if name in self._local or name == self._me:
                    return self._values.get(name)
                return self._values.get(name, self._outside.get(name, vars(builtins).get(name)))
            case ast.Call(func=ast.Name(id="type"), args=[ast.Name(id=name)]) if name == self._me:
                return self._kind
            case ast.Attribute(value=owner, attr=name):
                mine = self._is_mine(node)
                found = self._kind if mine else self._value(owner)
                if name == "__class__" or (mine and name in self._rebound):
                    return found if name == "__class__" else None
                if isinstance(found, ModuleType):
                    return vars(found).get(name)
                return inspect.getattr_static(found, name, None) if inspect.isclass(found) else None
        return None


def inert(value: Any) -> bool:
    """Whether an object keeps nothing that a task could leave behind in it."""
    if isinstance(value, tuple | frozenset):
        return all(map(inert, value))
    if isinstance(value, FunctionType) and value.__closure__:
        names = value.__code__.co_freevars  # one that counts, say
        steps = dis.get_instructions(value)
        return not any(
            one.opname == "STORE_DEREF" and one.argval in names for one in steps
        ) and all(
            one.cell_contents is value or inert(one.cell_contents) for one in value.__closure__
        )
    if isinstance(value, _CHANGE):
        return False
    return isinstance(value, type | Enum) or type(value).__module__.partition(".")[0] in _INERT
