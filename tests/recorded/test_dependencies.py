"""Dependencies of a spider: its mark changes with the code that it imports, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlframe.code.imports import marks
from crawlframe.code.registry import Registry
from crawlframe.code.source import SourceFinder
from tests.imports import forget, undone

SPIDER = """
from crawlframe import Spider
{imports}

class {kind}(Spider):
    name = "{name}"
    settings = {{"check": "recorded"}}

    def parse(self, response): ...
"""


class Package:
    """A package of spiders, ``marked`` again after each change."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir()
        self.write("__init__.py", "")

    def write(self, name: str, text: str) -> None:
        path = self._directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def spider(self, name: str, imports: str = "") -> None:
        text = SPIDER.format(kind=name.capitalize(), name=name, imports=imports)
        self.write(f"{name}.py", text)

    def marked(self) -> dict[str, str]:
        forget("marked_spiders")
        SourceFinder.install().loaded.clear()
        registry = Registry.load(self._directory)
        assert not registry.broken, registry.broken
        return marks(registry, registry.spiders)

    def changes(self, name: str, text: str) -> set[str]:
        """The spiders whose mark a change of this file changes."""
        before = self.marked()
        self.write(name, text)
        after = self.marked()
        return {spider for spider in after if before[spider] != after[spider]}


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Package]:
    with undone("marked_spiders"):
        yield Package(tmp_path / "marked_spiders")


def test_code_that_a_spider_imports(package: Package) -> None:
    package.spider("shop", "from marked_spiders.tools import words")
    package.spider("news", "from .tools.numbers import ONE")
    package.spider("alone")
    package.write("tools/__init__.py", "")
    package.write("tools/words.py", "from . import deep\n")
    package.write("tools/deep.py", "A = 1\n")
    package.write("tools/numbers.py", "ONE = 1\n")
    assert package.marked() == package.marked()
    assert package.changes("tools/deep.py", "A = 2\n") == {"shop"}
    assert package.changes("tools/numbers.py", "ONE = 2\n") == {"news"}
    assert package.changes("tools/__init__.py", "B = 1\n") == {"shop", "news"}
    assert package.changes("__init__.py", "C = 1\n") == {"shop", "news", "alone"}
    assert package.changes(
        "alone.py", SPIDER.format(kind="Alone", name="alone", imports="X = 1")
    ) == {"alone"}


def test_what_is_imported_in_a_function_counts(package: Package) -> None:
    package.spider("shop", "def later():\n    import marked_spiders.words")
    package.spider(
        "news", 'import importlib\nwords = importlib.import_module("marked_spiders.words")'
    )
    package.write("words.py", "A = 1\n")
    assert package.changes("words.py", "A = 2\n") == {"shop", "news"}


def test_computed_imports_depend_on_all_modules(package: Package) -> None:
    package.spider("shop", "import importlib\ndef get(n):\n    return importlib.import_module(n)")
    package.spider("alone")
    package.write("other.py", "A = 1\n")
    assert package.changes("other.py", "A = 2\n") == {"shop"}
    package.write("cities.json", "[]")
    assert package.changes("cities.json", "[1]") == {"shop", "alone"}  # of its readers


def test_nothing_is_read_for_no_spider(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlframe.code.imports.Dependencies", None)
    assert marks(Registry.load(Path(package._directory)), []) == {}
