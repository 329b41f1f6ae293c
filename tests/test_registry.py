"""Registry: what loads, what is reported, and that nothing a module does stops it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawlframe.errors import UnknownSpider
from crawlframe.registry import Registry, find_package

GOOD = """
from crawlframe import Spider

class Good(Spider):
    "A good one."
    name = "good"
    settings = {"delay": 2}

    def start(self, city: str, pages: int = 3):
        yield from ()
"""


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[..., Registry]]:
    """``load(file=source, ...)``: a registry of a package with these modules."""
    path, modules = [*sys.path], {*sys.modules}

    def make(**sources: str) -> Registry:
        directory = tmp_path / "some_spiders"
        for name, source in sources.items():
            file = directory / f"{name.replace('__', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source)
        return Registry.load(directory)

    yield make
    sys.path[:] = path
    for name in {*sys.modules} - modules:
        del sys.modules[name]


def test_spiders_of_all_modules_are_known(load: Callable[..., Registry]) -> None:
    registry = load(one=GOOD, deep__two=GOOD.replace('"good"', '"better"'))
    assert sorted(registry.spiders) == ["better", "good"]
    assert registry.broken == {}
    info = registry.info("good")
    assert (info.module, info.doc, info.settings.delay) == ("some_spiders.one", "A good one.", 2)
    assert info.arguments["required"] == ["city"]
    assert registry.get("better").__module__ == "some_spiders.deep.two"
    assert [info.name for info in registry.infos] == ["better", "good"]


def test_imported_and_nameless_classes_are_no_spiders_of_a_module(
    load: Callable[..., Registry],
) -> None:
    registry = load(
        one=GOOD + "\nclass Shared(Spider):\n    pass\n\nSame = Good\n",
        two="from some_spiders.one import Good, Shared\n",
    )
    assert sorted(registry.spiders) == ["good"]
    assert registry.broken == {}


@pytest.mark.parametrize(
    ("source", "line", "word"),
    [
        ("import crawlframe\n\nx = = 1\n", 3, "SyntaxError"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit"),
        ("import no_such_module_here\n", 1, "ModuleNotFoundError: No module named"),
        ("def inner():\n    raise ValueError('odd [x]')\ninner()\n", 2, "ValueError: odd [x]"),
        ("import json\n\njson.loads('{')\n", 3, "JSONDecodeError"),
        ("class Mine(BaseException): pass\nraise Mine\n", 2, "Mine"),
        (GOOD.replace('"delay": 2', '"dealy": 2'), 4, "dealy"),
        (GOOD.replace("pages: int", "pages: object()"), 4, "good"),
        (GOOD.replace('"good"', '"good one"'), 4, "'good one'"),
        (GOOD.replace('"good"', "7"), 4, "7"),
    ],
)
def test_a_broken_module_is_reported_and_the_others_load(
    load: Callable[..., Registry], source: str, line: int, word: str
) -> None:
    registry = load(broken=source, fine=GOOD.replace('"good"', '"fine"'))
    assert sorted(registry.spiders) == ["fine"]
    assert [*registry.broken] == ["some_spiders.broken"]
    first, *rest = registry.broken["some_spiders.broken"].splitlines()
    assert f"broken.py:{line}: " in first
    assert word in first
    assert not any("importlib" in text or "registry.py" in text for text in rest)


def test_a_traceback_follows_the_first_line(load: Callable[..., Registry]) -> None:
    registry = load(broken="def inner():\n    raise ValueError('odd')\ninner()\n")
    text = registry.broken["some_spiders.broken"]
    assert 'broken.py", line 3, in <module>' in text
    assert text.endswith("ValueError: odd")


def test_keyboard_interrupt_passes(load: Callable[..., Registry]) -> None:
    with pytest.raises(KeyboardInterrupt):
        load(broken="raise KeyboardInterrupt\n")


def test_two_spiders_of_one_name_are_both_refused(load: Callable[..., Registry]) -> None:
    more = GOOD.replace('"good"', '"more"').replace("Good", "More")
    registry = load(one=GOOD, two=GOOD + more)
    assert sorted(registry.spiders) == ["more"]
    assert sorted(registry.broken) == ["some_spiders.one", "some_spiders.two"]
    for problem in registry.broken.values():
        assert "some_spiders.one.Good and some_spiders.two.Good" in problem


def test_a_file_that_cannot_be_a_module_is_named(load: Callable[..., Registry]) -> None:
    registry = load(**{"my-shop": GOOD})
    assert "my-shop.py:1: a module's name" in registry.broken["some_spiders.my-shop"]


def test_an_unknown_name_lists_the_known_and_the_broken(load: Callable[..., Registry]) -> None:
    registry = load(one=GOOD, broken="1/0\n")
    with pytest.raises(UnknownSpider) as raised:
        registry.get("goood")
    text = str(raised.value)
    assert "did you mean 'good'?" in text
    assert "Known: good" in text
    assert "broken.py:1: ZeroDivisionError" in text
    assert "checkspiders" not in text


def test_a_missing_package_is_a_problem_not_an_error(tmp_path: Path) -> None:
    assert "no such directory" in Registry.load(tmp_path / "nowhere").broken["nowhere"]
    assert (
        "no such directory" in Registry.load("no_such_package_here").broken["no_such_package_here"]
    )


def test_another_directory_of_the_same_name_is_loaded_afresh(
    load: Callable[..., Registry], tmp_path: Path
) -> None:
    assert sorted(load(one=GOOD).spiders) == ["good"]
    other = tmp_path / "other" / "some_spiders"
    other.mkdir(parents=True)
    (other / "one.py").write_text(GOOD.replace('"good"', '"better"'))
    assert sorted(Registry.load(other).spiders) == ["better"]


def test_the_spiders_of_this_checkout_load() -> None:
    registry = Registry.load("spiders")
    assert registry.broken == {}
    assert "listings" in registry.spiders
    assert find_package("spiders") == Path(__file__).resolve().parent.parent / "spiders"
