"""Source: the figures that are exact, counted from the files of a checkout."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
LIMITS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("limits.toml").read_text()
)
PRODUCT = ("crawlframe", "crawlservice")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
NESTS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
LUA_FUNCTION = re.compile(r"^( *)(?:local )?(?:function ([\w.:]+)|([\w.]+) = function)\b")
VARIABLE = re.compile(r"^\| `([A-Z_]+)` \|", re.MULTILINE)


class Figure(NamedTuple):
    """``where``: the place that has the most; "" for a sum."""

    value: float
    where: str = ""


class Source:
    """The files of a checkout. Each method named in ``[exact]`` of the limits counts one figure."""

    def __init__(self, root: Path = CHECKOUT) -> None:
        self._root = root
        self._product = [
            path
            for folder in PRODUCT
            for path in sorted((root / folder).rglob("*"))
            if path.is_file() and "migrations" not in path.parts
        ]
        self._modules = [path for path in self._product if path.suffix == ".py"]
        self._functions: list[tuple[Path, str, Any]] = []  # with the class, as in Request.__init__
        self._classes: list[tuple[Path, ast.ClassDef]] = []
        for path in self._modules:
            for node in ast.walk(ast.parse(path.read_text(), str(path))):
                prefix = ""
                if isinstance(node, ast.ClassDef):
                    self._classes.append((path, node))
                    prefix = f"{node.name}."
                self._functions += [
                    (path, f"{prefix}{child.name}", child)
                    for child in ast.iter_child_nodes(node)
                    if isinstance(child, FUNCTION)
                ]

    def figures(self) -> dict[str, Figure]:
        """The figures by the names of the limits."""
        counts: dict[str, Callable[[], Figure]] = {
            name: getattr(self, name) for name in LIMITS["exact"]
        }
        return {name: count() for name, count in counts.items()}

    def product_lines(self) -> Figure:
        """Python, Lua and templates, without migrations."""
        return Figure(
            sum(
                _lines(path)
                for path in self._product
                if path.suffix in (".py", ".lua") or "templates" in path.parts
            )
        )

    def test_lines(self) -> Figure:
        apart = self._benchmark_tests() + int(self.simulation_lines().value)
        return Figure(sum(map(_lines, self._python("tests"))) - apart)

    def simulation_lines(self) -> Figure:
        """The simulation, with its own tests."""
        return Figure(sum(map(_lines, self._python("tests/simulation"))))

    def benchmark_lines(self) -> Figure:
        """Every file, with the tests of the benchmarks."""
        some = (self._root / "benchmarks").rglob("*")
        files = [path for path in some if path.is_file() and path.suffix != ".pyc"]
        return Figure(sum(map(_lines, files)) + self._benchmark_tests())

    def module_lines(self) -> Figure:
        return self._most((path, "", _lines(path)) for path in self._modules)

    def python_function_lines(self) -> Figure:
        return self._most(
            (path, name, node.end_lineno - node.lineno + 1) for path, name, node in self._functions
        )

    def lua_function_lines(self) -> Figure:
        return self._most(
            (path, name, lines)
            for path in self._product
            if path.suffix == ".lua"
            for name, lines in _lua_functions(path.read_text())
        )

    def nesting(self) -> Figure:
        """Levels of compound statements within a function."""
        return self._most((path, name, _depth(node)) for path, name, node in self._functions)

    def parameters(self) -> Figure:
        """Parameters of a function, without self and cls."""
        return self._most(
            (path, name, _parameters(node))
            for path, name, node in self._functions
            if name.removesuffix(".__init__") not in LIMITS["exempt"]["parameters"]
        )

    def fields(self) -> Figure:
        """Fields of a class, with the inherited ones."""
        return self._most(
            (path, node.name, len(self._fields(path, node)))
            for path, node in self._classes
            if node.name not in LIMITS["exempt"]["fields"]
        )

    def root_modules(self) -> Figure:
        return Figure(self._folders()[PRODUCT[0]])

    def folder_modules(self) -> Figure:
        folders = self._folders()
        for folder in LIMITS["exempt"]["folders"]:
            del folders[folder]
        folder, count = folders.most_common(1)[0]
        return Figure(count, folder)

    def docs_words(self) -> Figure:
        return Figure(sum(map(_words, (self._root / "docs").rglob("*.md"))))

    def architecture_words(self) -> Figure:
        return Figure(_words(self._root / "docs" / "architecture.md"))

    def variables(self) -> Figure:
        """Variables of the environment that are documented."""
        return Figure(len(VARIABLE.findall((self._root / "docs" / "settings.md").read_text())))

    def spider_settings(self) -> Figure:
        (settings,) = (pair for pair in self._classes if pair[1].name == "SpiderSettings")
        return Figure(len(self._fields(*settings)))

    def commands(self) -> Figure:
        folder = self._root / "crawlservice" / "management" / "commands"
        return Figure(len([path for path in folder.glob("*.py") if path.stem != "__init__"]))

    def dependencies(self) -> Figure:
        """Direct ones, without extras."""
        lines = (self._root / "requirements.txt").read_text().splitlines()
        return Figure(len([line for line in lines if re.match(r"\w", line)]))

    def _python(self, folder: str) -> Iterator[Path]:
        return (self._root / folder).rglob("*.py")

    def _benchmark_tests(self) -> int:
        return sum(map(_lines, self._python("tests/benchmarks")))

    def _fields(self, path: Path, node: ast.ClassDef) -> set[str]:
        """Annotated in the class, or assigned in its constructor."""
        fields = {
            ast.unparse(one.target)
            for one in node.body
            if isinstance(one, ast.AnnAssign) and "ClassVar" not in ast.unparse(one.annotation)
        }
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                fields |= {
                    one.attr
                    for one in ast.walk(method)
                    if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
                }
        bases = {ast.unparse(base) for base in node.bases} - {node.name}
        for place, one in self._classes:
            if one.name in bases and self._imports(path, place):
                fields |= self._fields(place, one)
        return fields

    def _imports(self, path: Path, other: Path) -> bool:
        """Whether a module is this other module, or imports names from it or its package."""
        module = other.relative_to(self._root).with_suffix("")
        names = (".".join(one.parts) for one in (module, module.parent))
        return path == other or any(f"from {name} import" in path.read_text() for name in names)

    def _folders(self) -> Counter[str]:
        return Counter(
            path.parent.relative_to(self._root).as_posix()
            for path in self._modules
            if path.stem != "__init__"
        )

    def _most(self, found: Iterator[tuple[Path, str, int]]) -> Figure:
        path, name, value = max(found, key=lambda one: one[2], default=(self._root, "", 0))
        return Figure(value, f"{path.relative_to(self._root)} {name}".strip())


def _lines(path: Path) -> int:
    return len(path.read_bytes().splitlines())


def _words(path: Path) -> int:
    return len(path.read_text().split())


def _lua_functions(text: str) -> Iterator[tuple[str, int]]:
    """The functions whose ``end`` stands below their beginning."""
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if begin := LUA_FUNCTION.match(line):
            rest = enumerate(lines[place:], 1)
            ends = (count for count, one in rest if re.match(rf"{begin[1]}end\b", one))
            yield begin[2] or begin[3], next(ends, 1)


def _parameters(node: Any) -> int:
    args = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(args) - (args[:1] in (["self"], ["cls"]))


def _depth(node: ast.AST) -> int:
    """An ``elif`` is no level of its own."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTION, ast.ClassDef, ast.Lambda)):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        deepest = max(deepest, _depth(child) + (isinstance(child, NESTS) and not is_elif))
    return deepest
