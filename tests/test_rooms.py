"""Imports that modules may have (docs/architecture.md), without a circle of folders: read from the
source. Sizes of modules: tests/test_weight.py."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

CHECKOUT = Path(__file__).parent.parent
CODE = ("crawlframe", "crawlservice", "spiders", "manage.py")


class Rule(NamedTuple):
    """Modules below ``room`` do not import modules below ``banned``, except ``but``: pairs of a
    module and an import that is allowed. A room ending in ".*" is only its own modules, without its
    sub-packages."""

    room: str
    banned: tuple[str, ...]
    but: tuple[tuple[str, str], ...] = ()


ENGINE = tuple(
    f"crawlframe.{part}"
    for part in ("code", "conf", "embedded", "fetch", "frontier", "node", "run.ledger")
)

# The leaves, and the contract with authors.
CONTRACT = ("actions", "base", "conf", "items", "markup", "request", "response", "run", "spider")

RULES = (
    Rule(
        "crawlframe",
        ("django", "crawlservice", "spiders"),
        but=(("crawlframe.node.supervisor.watcher", "django.utils.autoreload"),),
    ),
    *(
        Rule(
            f"crawlframe.{room}",
            ("crawlframe.frontier", "crawlframe.fetch", "crawlframe.node"),
            but=(("crawlframe.run.ledger", "crawlframe.frontier.client.records"),),
        )
        for room in CONTRACT
    ),
    Rule(
        "crawlframe.frontier", ("crawlframe.fetch", "crawlframe.node", "crawlframe.code.registry")
    ),
    Rule(
        "crawlframe.fetch", ("crawlframe.frontier", "crawlframe.node", "crawlframe.code.registry")
    ),
    Rule("crawlframe.render", ("crawlframe.frontier", "crawlframe.fetch", "crawlframe.node")),
    Rule("crawlframe.warc", ("crawlframe.frontier", "crawlframe.fetch", "crawlframe.node")),
    Rule("crawlframe.proxies", ("crawlframe.frontier", "crawlframe.fetch", "crawlframe.node")),
    # The master imports no user code, so that a fork always loads it afresh.
    Rule("crawlframe.node.master.master", ("crawlframe.code.registry",)),
    Rule(
        "crawlservice",
        ("spiders", "crawlframe.node"),
        but=(
            ("crawlservice.cli.supervise", "crawlframe.node"),
            ("crawlservice.management.commands.runcrawler", "crawlframe.node"),
            *(
                ("crawlservice.services", f"crawlframe.node.{name}")
                for name in ("code", "messages", "services")
            ),
            *(
                ("crawlservice.steward.steward", f"crawlframe.node.{name}")
                for name in ("channel", "messages")
            ),
            ("crawlservice.steward.chores", "crawlframe.node.supervisor_messages"),
            ("crawlservice.steward.task_chore", "crawlframe.node.task_finisher"),
        ),
    ),
    Rule("crawlservice.models", ("crawlframe.frontier", "crawlservice")),
    Rule(
        "crawlservice.exports",
        ("crawlframe.frontier", "crawlservice.admin", "crawlservice.api", "crawlservice.steward"),
    ),
    Rule(
        "crawlservice.proxies", ("crawlservice.admin", "crawlservice.api", "crawlservice.steward")
    ),
    Rule("crawlservice.admin", ("crawlframe.frontier", "crawlservice.connections.frontier")),
    # A spider needs the names of the package, with URLs and errors: no running parts.
    Rule("spiders", ("crawlservice", "spiders", "django", *ENGINE)),
    Rule(
        "manage",
        ("crawlservice", "spiders", "crawlframe.node", "crawlframe.frontier"),
        but=(("manage", "crawlservice.cli.program"),),
    ),
)


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    for name in CODE:
        top = root / name
        for path in sorted(top.rglob("*.py")) if top.is_dir() else [top] * top.exists():
            parts = path.relative_to(root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def parsed(source: str) -> ast.Module:
    """The garbage collector leaves it alone: the trees of the product are 750,000 objects."""
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.freeze()
        gc.enable()


def imports(module: str, path: Path) -> Iterator[str]:
    """Every module that is named in an import anywhere in the file, functions included. ``from a
    import b`` names a and a.b, because b may be a module."""
    for node in ast.walk(parsed(path.read_text())):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(target, names, level):
                base = target or ""
                if level:
                    package = (
                        module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
                    )
                    above = package[: len(package) - level + 1]
                    base = ".".join([*above, *([target] if target else [])])
                yield base
                yield from (f"{base}.{alias.name}" for alias in names)
            case ast.Call(
                ast.Name(function) | ast.Attribute(attr=function), [ast.Constant(str(name)), *_]
            ):
                if function in ("import_module", "__import__"):
                    yield name


def within(module: str, room: str) -> bool:
    if room.endswith(".*"):
        return module.rpartition(".")[0] == room[:-2]
    return module == room or module.startswith(f"{room}.")


def violations(root: Path) -> list[str]:
    found = []
    for module, path in modules(root):
        named = set(imports(module, path))
        for rule in RULES:
            if within(module, rule.room):
                found += [
                    f"{module} imports {name}"
                    for name in sorted(named)
                    if broken(rule, module, name)
                ]
    return found


def broken(rule: Rule, module: str, name: str) -> bool:
    # A package names its own parts, and `from a import b` was counted as a and a.b.
    if any(within(name, banned) for banned in rule.banned if not within(module, banned)):
        exempt = [target for who, target in rule.but if who == module]
        return not any(within(name, target) or within(target, name) for target in exempt)
    return False


def circles(root: Path) -> list[str]:
    """Imports that lead back to where they started, among the files and folders of each folder."""
    known = dict(modules(root))
    graphs: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module, path in known.items():
        for name in set(imports(module, path)) & known.keys():
            ours, theirs = module.split("."), name.split(".")
            pairs = enumerate(zip(ours, theirs, strict=False))
            depth = next((at for at, (one, other) in pairs if one != other), None)
            if depth:
                graphs[".".join(ours[:depth])][ours[depth]].add(theirs[depth])
    found = []
    for folder, graph in graphs.items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            found.append(f"{folder}: {', '.join(error.args[1])}")
    return found


@pytest.mark.slow
def test_no_folder_imports_in_a_circle():
    assert circles(CHECKOUT) == []


@pytest.mark.parametrize(
    ("importer", "imported"),
    [("crawlframe/code/a.py", "crawlframe.urls"), ("crawlframe/urls.py", "crawlframe.code.a")],
)
def test_a_circle_is_found(tmp_path, importer, imported):
    """code.a needs urls, which needs code.b: no circle of modules, but one of folders."""
    (tmp_path / "crawlframe/code").mkdir(parents=True)
    for name in ("urls", "code/a", "code/b"):
        (tmp_path / f"crawlframe/{name}.py").touch()
    assert circles(tmp_path) == []
    (tmp_path / importer).write_text(f"import {imported}")
    assert circles(tmp_path) == []
    back = {"crawlframe/code/a.py": "urls", "crawlframe/urls.py": "code/b"}[importer]
    target = {"urls": "crawlframe.code.b", "code/b": "crawlframe.urls"}[back]
    (tmp_path / f"crawlframe/{back}.py").write_text(f"from {target} import x")
    assert len(circles(tmp_path)) == 1


@pytest.mark.slow
def test_every_module_keeps_to_its_room():
    assert len(list(modules(CHECKOUT))) > 20
    assert violations(CHECKOUT) == []


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("crawlframe/base/urls.py", "import django.db", "crawlframe.base.urls imports django.db"),
        (
            "crawlframe/node/master/master.py",
            "def f():\n  from crawlservice import x",
            "crawlservice",
        ),
        ("crawlframe/node/supervisor/watcher.py", "import django.conf", "imports django.conf"),
        ("crawlframe/code/registry.py", "import_module('spiders.site')", "imports spiders.site"),
        ("crawlframe/base/urls.py", "from ..node import child", "imports crawlframe.node"),
        ("crawlframe/base/urls.py", "from crawlframe import fetch", "imports crawlframe.fetch"),
        ("crawlframe/run/ledger.py", "import crawlframe.frontier.keys", "crawlframe.frontier"),
        ("crawlframe/fetch/curl.py", "from ..frontier import keys", "imports crawlframe.frontier"),
        ("crawlframe/frontier/keys.py", "import crawlframe.fetch", "imports crawlframe.fetch"),
        ("crawlservice/ledger/store.py", "import crawlframe.node", "store imports crawlframe.node"),
        ("crawlservice/admin.py", "import spiders.site", "admin imports spiders.site"),
        ("spiders/shop.py", "from crawlservice import models", "shop imports crawlservice"),
        ("spiders/shop.py", "from crawlframe.conf import Settings", "imports crawlframe.conf"),
        ("manage.py", "import crawlservice.settings", "manage imports crawlservice.settings"),
    ],
)
def test_a_violation_is_found(tmp_path, path, source, expected):
    for name in ("crawlframe/base/urls.py", path):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert violations(tmp_path) == []
    (tmp_path / path).write_text(source)
    assert any(expected in line for line in violations(tmp_path)), violations(tmp_path)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "crawlframe/node/supervisor/watcher.py",
            "from django.utils.autoreload import BaseReloader",
        ),
        ("crawlframe/run/ledger.py", "from crawlframe.frontier.client.records import Admission"),
        ("crawlframe/node/worker/worker.py", "from crawlframe.code.registry import Registry"),
        ("crawlservice/management/commands/runcrawler.py", "import crawlframe.node.master"),
        (
            "spiders/shop.py",
            "from crawlframe import Request\nfrom crawlframe.base.urls import join",
        ),
    ],
)
def test_allowed_imports_are_no_violations(tmp_path, path, source):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(source)
    assert violations(tmp_path) == []


ROOTS = {
    "crawlframe": {"__init__", "actions", "conf", "errors", "load_spiders", "plug_in"},
    "crawlservice": {
        "__init__", "__main__", "apps", "display", "environment", "node_settings",
        "outside_settings", "project", "services", "settings", "signals", "urls", "wsgi",
    },
}  # fmt: skip
MAX_MODULES = 25
# Django finds commands in one folder only.
EXEMPT = {"crawlservice/management/commands", "crawlservice/migrations"}


def packages() -> list[Path]:
    return [path.parent for root in ROOTS for path in (CHECKOUT / root).rglob("__init__.py")]


@pytest.mark.parametrize("package", ROOTS)
def test_a_root_has_no_other_modules(package):
    assert {path.stem for path in (CHECKOUT / package).glob("*.py")} == ROOTS[package]


def test_no_folder_is_too_full():
    counts = {str(p.relative_to(CHECKOUT)): len(list(p.glob("*.py"))) for p in packages()}
    assert {name for name, count in counts.items() if count > MAX_MODULES} <= EXEMPT


def test_every_folder_says_what_it_is_for():
    assert len(packages()) > 90
    for folder in packages():
        sentence = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        assert sentence.partition("\n\n")[0].endswith("."), folder
    for package in ROOTS:
        for path in (CHECKOUT / package).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), f"{path.parent} is no package"
