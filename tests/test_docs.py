"""The documentation names every command, its examples load, its pages link to each other, and its
English is plain. ``make docs`` checks the rest: references, headings, docstrings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crawlframe import Spider
from crawlframe.spider.spider import describe
from crawlservice.cli.grammar import VERBS, WORDS
from tests.command_lines import lines_in, problem_of
from tests.turns import TURNS

CHECKOUT = Path(__file__).resolve().parent.parent
DOCS = CHECKOUT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Code and the targets of links are no prose.
CODE = re.compile(r"^ *```.*?^ *```|`[^`]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)


def named(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


def examples() -> list[tuple[str, str]]:
    return [(named(page), source) for page in PAGES for source in PYTHON.findall(page.read_text())]


def prose(page: str) -> str:
    """The words of a page outside of code."""
    return " ".join(CODE.sub("``", page).split())


@pytest.mark.parametrize("turn", TURNS)
def test_the_english_is_plain(turn: str) -> None:
    pages = {named(page): prose(page.read_text()) for page in PAGES}
    most = sorted(pages, key=lambda name: TURNS[turn].rate(pages[name]), reverse=True)[:5]
    assert TURNS[turn].rate(" ".join(pages.values())) <= TURNS[turn].goal, most


def test_a_turn_is_counted() -> None:
    page = "What\nof which it\nis made: `what` [code](a.md#what).\n```\nwhat\n```\n"
    assert prose(page) == "What of which it is made: `` [code``. ``"
    rates = [TURNS[name].rate(prose(page)) for name in ("what", "of which")]
    assert rates == [1000 / 9] * 2


@pytest.mark.parametrize(("page", "source"), examples())
def test_the_examples_are_sound(page: str, source: str) -> None:
    """Whole modules are run; parts must compile, as must an app's, which test_own_tables.py
    runs."""
    if "import" not in source or "estate" in source:
        compile(source.replace("\n    def", "\ndef"), page, "exec")
        return
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(source, page, "exec", dont_inherit=True), names)
    for value in names.values():
        if isinstance(value, type) and issubclass(value, Spider) and value is not Spider:
            assert describe(value).name or value.__subclasses__()  # a base class has no name


def test_every_command_is_named() -> None:
    table = (DOCS / "reference/commands.md").read_text()
    known = {
        *WORDS,
        *(f"{noun} {verb}" for noun in ("store", "watch", "task") for verb in VERBS[noun]),
    }
    assert {name for name in known if not re.search(rf"`{name}\b", table)} == set()


LINES = [
    pytest.param(words, id=f"{named(page)}-{' '.join(words)}")
    for page in [*PAGES, *CHECKOUT.glob("README*.md"), CHECKOUT / "CONTRIBUTING.md"]
    for words in lines_in(page.read_text())
]


def test_every_command_line_exists() -> None:
    assert len(LINES) > 250
    wrong = {line.id: problem_of(line.values[0]) for line in LINES}  # type: ignore[arg-type]
    assert [f"{line}: {problem}" for line, problem in wrong.items() if problem] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```sh\n.venv/bin/python manage.py nodes  # all\n```", "no command: nodes"),
        ("see `crawlframe task lits`", "no verb: task lits"),
        ("see `task pause 3 --now`", "no option: task pause --now"),
        ("`python manage.py pasue 3`", "no command: pasue"),
    ],
)
def test_a_wrong_command_line_is_found(text: str, problem: str) -> None:
    assert [*map(problem_of, lines_in(text))] == [problem]


def test_recipes_are_typed_as_in_a_project() -> None:
    recipes = (DOCS / "howto").glob("*.md")
    others = {page.name for page in recipes if re.search(r"manage\.py [a-z]", page.read_text())}
    assert others == {"broad.md", "upgrade.md"}  # about a checkout, and about old code


def test_every_page_is_in_the_contents() -> None:
    contents = (DOCS / "index.md").read_text()
    listed = set(re.findall(r"^(?:.*<)?([\w/.-]+?)>?$", contents, re.MULTILINE))
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in PAGES}
    assert pages - listed - {"index", "guide/first-crawl.zh-CN"} == set()


def test_the_api_is_described_and_each_call_exists() -> None:
    from crawlservice.api.app import api

    text = "\n".join(page.read_text() for page in PAGES).replace("\\\n", "")
    tags = ",".join(re.findall(r"\{api-operations\} (.*)", text)).replace(" ,", ",")
    known = []
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), path
            assert any(tag in tags for tag in operation["tags"]), path
            known.append(method.upper() + re.sub(r"{\w+}", "[^/]+", path))
    calls = re.findall(r"^ *api (?:-N )?(?:-X (\w+) )?.*?\$API(/[^\s\"?]*)(.*)", text, re.MULTILINE)
    assert len(calls) > 20
    for method, path, rest in calls:
        call = (method or ("POST" if " -d " in rest else "GET")) + f"/api/v1{path}"
        assert any(re.fullmatch(one, call) for one in known), call
