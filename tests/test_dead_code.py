"""Dead code of the product: modules that no module imports, and names that no other code uses."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from tests.test_rooms import CHECKOUT, CODE, imports, modules, parsed

# Modules that are loaded by a name in a string, which no reader of imports sees, and by whom.
LOADED_BY_NAME = {
    "manage": "the user",
    "crawlframe.recorded.pytest_plugin": "pytest, by the entry point in pyproject.toml",
    "crawlframe.testing.downloader_contract": "authors of downloaders, in their tests",
    "crawlframe.text.extraction": "crawlframe.text.article, when a page is long",
    "crawlframe.text.fast": "crawlframe.text.article",
    "crawlframe.gates.*": "crawlframe.gates, by the name of a setting",
    "crawlservice.alerts.conditions.*": "the registry of conditions",
    "crawlservice.apps": "Django",
    "crawlservice.exports.targets.*": "the registry of targets",
    "crawlservice.formats.*": "Django",
    "crawlservice.management.commands.*": "Django",
    "crawlservice.cli.task.*": "the command task",
    "crawlservice.migrations.*": "Django",
    "crawlservice.settings": "Django",
    "crawlservice.testing.*": "authors of alert conditions and export targets, in their tests",
    "crawlservice.theme.admin_site": "Django, by default_site of crawlservice.theme.apps",
    "crawlservice.theme.apps": "Django",
    "crawlservice.theme.texts": "gettext",
    "crawlservice.urls": "Django",
    "crawlservice.web.refusals": "Django, by CSRF_FAILURE_VIEW and handler400",
    "crawlservice.web.server": "gunicorn",
    "crawlservice.web.worker": "gunicorn",
    **{
        f"crawlservice.{feature}.chores": "the registry of chores"
        for feature in (
            "alerts",
            "cases",
            "databases",
            "exports",
            "hosts",
            "ledger",
            "pages",
            "proxies",
            "scheduling",
            "steward",
            "tasks",
            "watches",
            "webhooks",
        )
    },
    "spiders.*": "the template of a node",
}
# Modules whose names are read from outside.
READ_BY_NAME = (
    "crawlframe.recorded.pytest_plugin",
    *(f"crawlservice.alerts.conditions.{subject}" for subject in (
        "deliveries", "hosts", "nodes", "quality", "schedules", "tasks",
    )),
    "crawlservice.formats.en.formats",
    "crawlservice.formats.zh_Hans.formats", "crawlservice.node_settings",
    "crawlservice.outside_settings", "crawlservice.settings",
    "crawlservice.testing.condition_contract", "crawlservice.testing.target_contract",
    "crawlservice.urls",
    "crawlservice.web.server", "spiders.broad", "spiders.listings", "spiders.site",
)  # fmt: skip
# Names that others call: Django, urllib3, authors of downloaders and of code with crawlframe.noise.
CALLED_FROM_OUTSIDE = {
    "_construct_form", "_get_conn", "_post_clean", "_put_conn", "add_all", "allow_migrate",
    "endheaders", "process_view", "proxy_addresses", "take_new",
}  # fmt: skip
OTHER_TEXTS = (".html", ".txt", ".lua", ".toml", ".js")
WORD = re.compile(r"\w+")


@cache
def trees() -> dict[str, ast.Module]:
    return {
        name: parsed(path.read_text())
        for name, path in modules(CHECKOUT)
        if ".migrations" not in name
    }


def is_listed(module: str) -> bool:
    above = module
    while above and f"{above}.*" not in LOADED_BY_NAME:
        above = above.rpartition(".")[0]
    return bool(above) or module in LOADED_BY_NAME


@cache
def strings(tree: ast.AST) -> list[str]:
    nodes = [*ast.walk(tree)]
    documented = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    constants = (node for node in nodes if isinstance(node, ast.Constant))
    return [
        node.value
        for node in constants
        if isinstance(node.value, str) and id(node) not in documented
    ]


@pytest.mark.slow
def test_every_module_is_imported_or_listed():
    paths = dict(modules(CHECKOUT))
    imported = {name for module, path in paths.items() for name in imports(module, path)}
    quoted = {text for tree in trees().values() for text in strings(tree)}
    orphans = [
        name
        for name, path in paths.items()
        if path.name not in ("__init__.py", "__main__.py")
        and name not in imported
        and name not in quoted
        and not is_listed(name)
    ]
    assert orphans == []


def names_used(node: ast.AST) -> Counter[str]:
    """The names in a piece of code: variables, attributes, keywords, imports, words of strings."""
    used: Counter[str] = Counter()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                used[name] += 1
            case ast.alias(name=name):
                used[name.rpartition(".")[2]] += 1
            case ast.MatchClass(kwd_attrs=names):
                used.update(names)
    for text in strings(node):
        used.update(WORD.findall(text))
    return used


def definitions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The names of a module that its own code must use: functions, classes and constants, and the
    methods that no base class may call."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(decorator_list=[]) | ast.AsyncFunctionDef(decorator_list=[]):
                yield node.name, node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node
            case ast.ClassDef(decorator_list=decorators):
                if not decorators:
                    yield node.name, node
                yield from methods(node)


def methods(owner: ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
            if decorators <= {"property", "staticmethod", "classmethod"} and (
                not owner.bases or node.name.startswith("_")
            ):
                yield node.name, node


@pytest.mark.slow
def test_every_name_is_used():
    uses = {module: names_used(tree) for module, tree in trees().items()}
    used: Counter[str] = Counter()
    for counted in uses.values():
        used.update(counted)
    for path in (path for top in CODE for path in (CHECKOUT / top).rglob("*")):
        if path.suffix in OTHER_TEXTS:
            used.update(WORD.findall(path.read_text()))
    dead = []
    for module, tree in trees().items():
        top = {id(node) for node in tree.body}
        for name, node in definitions(tree):
            # A name with "_" is used by its module, or as a method by a class that inherits.
            own = uses[module] if name.startswith("_") and id(node) in top else used
            if (
                own[name] <= names_used(node)[name]
                and name not in CALLED_FROM_OUTSIDE
                and not name.startswith("__")
                and module not in READ_BY_NAME
            ):
                dead.append(f"{module}.{name}")
    assert dead == []


@pytest.mark.parametrize(
    ("source", "dead"),
    [
        ("def f():\n    return f()", ["f"]),
        ("X = 1", ["X"]),
        ("class A:\n    def m(self): ...\nA()", ["m"]),
        ("class A:\n    def m(self): ...\nA().m()", []),
        ("class A:\n    def m(self): ...\ngetattr(A(), 'm')", []),
        ("class A(B):\n    def m(self): ...\nA()", []),
        ("class A(B):\n    def _m(self): ...\nA()", ["_m"]),
    ],
)
def test_a_dead_name_is_found(source: str, dead: list[str]) -> None:
    tree = ast.parse(source)
    used = names_used(tree)
    found = [name for name, node in definitions(tree) if used[name] <= names_used(node)[name]]
    assert found == dead
