"""The documentation names every command, its examples load, its pages link to each other, and its
English is plain. ``make docs`` checks the rest: references, headings, docstrings."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from crawlframe import Spider
from crawlframe.spider.spider import describe
from crawlservice.cli.grammar import VERBS, WORDS
from tests.command_lines import lines_in, problem_of

CHECKOUT = Path(__file__).resolve().parent.parent
DOCS = CHECKOUT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
PROSE = [*PAGES, CHECKOUT / "README.md", CHECKOUT / "CHANGELOG.md"]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

# A word on the left is a translation into words; a native writer would choose one on the right.
TRANSLATED = {
    r"\b(?:is|are|was|were|be|been) told\b": "is called with, is notified, receives",
    r"\bmend(?:s|ed|ing)?\b": "fix, repair",
    r"\bof before\b": "older, previous",
    r"\bhow long what\b": "retention",
    r"\bAnswers (?:the|whether|how|what)\b": "Returns",
    r"\bbeside\b": "next to, in addition to, compared with",
    r"\bgo(?:es)? on with\b": "continue, resume",
    r"\btak(?:e|es|en) for\b": "treat as, mistake for",
    r"\bbroken off\b": "interrupted",
    r"\bstands? still\b": "makes no progress, is blocked",
    r"\bmade anew\b": "replaced, recreated",
    # References that lead nowhere.
    r"\bdesign section\b": "name the page",
    r"\bthe paper\b": "cite docs/sources.md",
}
CODE = re.compile(r"```.*?^```|`[^`]*`", re.DOTALL | re.MULTILINE)


MODULES = sorted(
    path for room in ("crawlframe", "crawlservice") for path in (CHECKOUT / room).rglob("*.py")
)


def named(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


def examples() -> list[tuple[str, str]]:
    return [(named(page), source) for page in PAGES for source in PYTHON.findall(page.read_text())]


def translated(text: str) -> list[str]:
    """Phrases outside of code that have a plainer form."""
    # Code goes, and with it the line breaks in the middle of phrases.
    plain = " ".join(CODE.sub("``", text).split())
    return [
        f"…{plain[max(0, hit.start() - 30) : hit.end() + 30]}…: {better}"
        for phrase, better in TRANSLATED.items()
        for hit in re.finditer(phrase, plain, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_the_english_is_plain(page: Path) -> None:
    assert translated(page.read_text()) == []


def texts_of(source: str) -> str:
    """The docstrings, comments and messages of a module."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    strings = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]
    return "\n".join([*comments, *strings]).replace("``", "`")


@pytest.mark.slow
def test_the_english_of_the_code_is_plain() -> None:
    found = {named(path): translated(texts_of(path.read_text())) for path in MODULES}
    assert {path: phrases for path, phrases in found.items() if phrases} == {}


def test_a_translated_phrase_is_found() -> None:
    text = "Nodes of\nbefore cannot read them; the node is told. `beside` is a word in code.\n"
    assert len(translated(text)) == 2
    assert translated("```\nbeside\n```\nIt is called with `told`.\n") == []
    code = 'told = 1  # is told\n\n\ndef mend():\n    """It is\n    mended."""\n'
    assert len(translated(texts_of(code))) == 2


OWN_TABLES = "docs/howto/own-tables.md"


@pytest.mark.parametrize(("page", "source"), examples())
def test_the_examples_are_sound(page: str, source: str) -> None:
    """Whole modules are run; parts must compile, as must an app's, which test_own_tables.py
    runs."""
    if "import" not in source or page == OWN_TABLES:
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
        ("`hosts a.example --pause`", "old form: hosts a.example --pause"),
        ("```sh\n.venv/bin/python manage.py nodes  # all\n```", "old form: nodes"),
        ("see `crawlframe task lits`", "no verb: task lits"),
        ("see `task pause 3 --now`", "no option: task pause --now"),
        ("`python manage.py pasue 3`", "no command: pasue"),
    ],
)
def test_a_wrong_command_line_is_found(text: str, problem: str) -> None:
    assert [*map(problem_of, lines_in(text))] == [problem]


def test_every_page_is_in_the_contents() -> None:
    contents = (DOCS / "index.md").read_text()
    listed = set(re.findall(r"^(?:.*<)?([\w/.-]+?)>?$", contents, re.MULTILINE))
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in PAGES}
    assert pages - listed - {"index", "quickstart.zh-CN"} == set()
