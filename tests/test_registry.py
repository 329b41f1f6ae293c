"""Registry: the loaded spiders, its reports, and that nothing in a module stops it."""

from __future__ import annotations

import importlib
import json
import os
import py_compile
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from crawlframe.code.package import find_package
from crawlframe.code.registry import Registry
from crawlframe.code.source import FRAMEWORK, SourceFinder
from crawlframe.errors import UnknownSpider
from crawlframe.spider.spider import Spider

GOOD = """
from crawlframe import Spider

class Good(Spider):
    "A good one."
    name = "good"
    settings = {"delay": 2}

    def start(self, city: str, pages: int = 3):
        yield from ()
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def spider(name: str, more: str = "") -> str:
    return f"from crawlframe import Spider\nclass Some(Spider):\n    name = {name!r}\n    {more}\n"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Registry]]:
    """``load(file=source, ...)``: a registry of a package with these modules."""
    path, modules = [*sys.path], {*sys.modules}
    # A finder of its own: the process's knows the modules of other tests.
    others = [finder for finder in sys.meta_path if not isinstance(finder, SourceFinder)]
    monkeypatch.setattr(sys, "meta_path", others)

    def make(options: dict[str, Any] | None = None, **sources: str) -> Registry:
        directory = tmp_path / "some_spiders"
        for name, source in sources.items():
            write(directory / f"{name.replace('__', '/')}.py", source)
        return Registry.load(directory, **(options or {}))

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
    assert "manage.py" not in text


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


def test_the_parents_of_a_dotted_package_are_not_imported_to_find_it(tmp_path, monkeypatch):
    write(tmp_path / "dottedtop/__init__.py", "1 / 0\n")
    write(tmp_path / "dottedtop/inner/__init__.py", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_package("dottedtop.inner") == tmp_path / "dottedtop" / "inner"
    assert find_package("dottedtop.missing") is None
    assert "dottedtop" not in sys.modules


# -- whole versions, each in a process of its own --------------------------------------------------


def in_child(what: Callable[[], object]) -> Any:
    """The result of a forked process, or the signal or exit code that ended it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            sys.dont_write_bytecode = False
            os.write(writing, json.dumps(what()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return json.loads(text) if text else code


def names(directory: Path, **options: Any) -> list[str]:
    """The spiders that a fresh process finds."""
    found: list[str] = in_child(lambda: sorted(Registry.load(directory, **options).spiders))
    return found


@pytest.mark.parametrize("cached", [False, True])
def test_each_version_is_loaded_as_it_lies_there(tmp_path: Path, cached: bool) -> None:
    tree = tmp_path / "some_spiders"
    options = {"bytecode": tmp_path / "bytecode"} if cached else {}
    path = write(tree / "shops/one.py", spider("one"))
    assert names(tree, **options) == ["one"]
    times = path.stat()
    write(path, spider("two"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert names(tree, **options) == ["two"]
    py_compile.compile(str(path))
    write(path, spider("six"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert names(tree, **options) == ["six"]
    write(tree / "new.py", spider("new"))
    assert names(tree, **options) == ["new", "six"]
    (tree / "shops").rename(tree / "stores")
    assert names(tree, **options) == ["new", "six"]
    write(tree / "user.py", "from some_spiders import shops\n")
    assert names(tree, **options) == ["new", "six"]
    (tree / "stores/one.py").unlink()
    assert names(tree, **options) == ["new"]


def test_a_renamed_package_is_not_found_under_its_old_name(tmp_path: Path) -> None:
    tree = tmp_path / "some_spiders"
    write(tree / "shops/__init__.py", "price = 7\n")
    write(tree / "one.py", "from some_spiders.shops import price\n" + spider("one"))
    py_compile.compile(str(tree / "shops/__init__.py"))
    assert names(tree) == ["one"]
    (tree / "shops").rename(tree / "stores")
    broken = in_child(lambda: Registry.load(tree).broken)
    assert [*broken] == ["some_spiders.one"]
    first = broken["some_spiders.one"].partition("\n")[0]
    assert first.endswith("one.py:1: ModuleNotFoundError: No module named 'some_spiders.shops'")


def test_what_a_link_leads_to_is_loaded(tmp_path: Path) -> None:
    for version in ("one", "two"):
        path = write(tmp_path / version / "shop.py", spider(version))
        os.utime(path, (10**9, 10**9))
    tree = tmp_path / "some_spiders"
    tree.mkdir()
    (tree / "shops").symlink_to(tmp_path / "one")
    assert names(tree) == ["one"]
    (tree / "shops").unlink()
    (tree / "shops").symlink_to(tmp_path / "two")
    assert names(tree) == ["two"]


def test_modules_that_came_from_bytecode_before_are_loaded_anew(tmp_path: Path) -> None:
    tree = tmp_path / "some_spiders"
    path = write(tree / "one.py", spider("old"))
    py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    write(path, spider("new"))

    def early() -> list[str]:
        sys.meta_path[:] = [one for one in sys.meta_path if type(one).__name__ != "SourceFinder"]
        sys.path.insert(0, str(tmp_path))
        module = __import__("some_spiders.one").one
        return [module.Some.name, *Registry.load("some_spiders").spiders]

    assert in_child(early) == ["old", "new"]


# -- modules that do not come back -----------------------------------------------------------------


def test_modules_that_killed_a_process_are_left_out(load: Callable[..., Registry]) -> None:
    told: list[str] = []
    registry = load(
        {"skip": {"some_spiders.killer": "it died\nof signal 9"}, "loading": told.append},
        killer="import os\nos._exit(3)\n",
        other="import some_spiders.killer\n",
        third=spider("third"),
    )
    assert [*registry.spiders] == ["third"]
    assert registry.broken["some_spiders.killer"] == "it died\nof signal 9"
    first = registry.broken["some_spiders.other"].partition("\n")[0]
    assert first.endswith("other.py:1: ImportError: it died")
    assert told == ["some_spiders.other", "some_spiders.third"]


@pytest.mark.parametrize(
    ("deed", "end"), [("os._exit(3)", 3), ("os.kill(os.getpid(), 9)", -signal.SIGKILL)]
)
def test_the_last_module_reported_is_the_one_that_kills(
    tmp_path: Path, deed: str, end: int
) -> None:
    tree = tmp_path / "some_spiders"
    write(tree / "fine.py", spider("fine"))
    write(tree / "killer.py", f"import os\n{deed}\n")
    log = tmp_path / "log"

    def tell(module: str) -> None:
        log.write_text(module)

    assert in_child(lambda: sorted(Registry.load(tree, loading=tell).spiders)) == end
    assert log.read_text() == "some_spiders.killer"
    assert names(tree, skip={log.read_text(): "it kills"}) == ["fine"]


ENDLESS = (
    "while True:\n    try:\n        while True:\n            pass\n    except Exception: pass\n"
)


@pytest.mark.parametrize("source", ["x = 1\nwhile True: pass\n", "x = 1\n" + ENDLESS])
def test_an_endless_import_is_broken_where_it_stood(
    load: Callable[..., Registry], source: str
) -> None:
    registry = load({"limit": 0.3}, endless=source, fine=spider("fine"))
    assert [*registry.spiders] == ["fine"]
    first, *rest = registry.broken["some_spiders.endless"].splitlines()
    place, _, words = first.partition(": ")
    assert words == "import took longer than 0.3 s"
    assert int(place.rpartition("endless.py:")[2]) in (2, 4, 5)
    assert 'endless.py", line' in rest[1]
    assert not any("source.py" in line or "importlib" in line for line in rest)


def test_an_endless_module_is_waited_for_once(
    load: Callable[..., Registry], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    counting = f"with open({str(log)!r}, 'a') as log: print('x', file=log)\n"
    write(tmp_path / "stuck_prices.py", counting + ENDLESS)
    user = "import stuck_prices\n"
    registry = load({"limit": 0.3}, a=user, b=user, c=user, fine=spider("fine"))
    assert log.read_text() == "x\n"
    assert [*registry.spiders] == ["fine"]
    firsts = [problem.partition("\n")[0] for problem in registry.broken.values()]
    assert len(firsts) == 3
    assert "stuck_prices.py:" in firsts[0]
    assert all(first.endswith("import took longer than 0.3 s") for first in firsts)
    assert "b.py:1: ImportError: " in firsts[1]


def test_endless_annotations_are_broken_too(load: Callable[..., Registry]) -> None:
    source = "def forever():\n    while True: pass\n"
    registry = load({"limit": 0.3}, odd=source + spider("odd", "shop: 'forever()' = 1"))
    assert registry.spiders == {}
    assert "import took longer than 0.3 s" in registry.broken["some_spiders.odd"]


def test_a_missing_dependency_is_to_be_installed(load: Callable[..., Registry]) -> None:
    registry = load(
        lacking="import no_such_module_here.part\n",
        mistaken="import json.no_such_part\n",
        gone="import some_spiders.gone_part\n",
    )
    firsts = {name: text.partition("\n")[0] for name, text in registry.broken.items()}
    assert firsts["some_spiders.lacking"].endswith(
        ":1: ModuleNotFoundError: No module named 'no_such_module_here': install it on this node"
    )
    assert "install" not in firsts["some_spiders.mistaken"]
    assert firsts["some_spiders.gone"].endswith("No module named 'some_spiders.gone_part'")


def test_a_model_whose_app_is_not_named_is_told_as_such(load: Callable[..., Registry]) -> None:
    said = (
        "Model class estate.models.House doesn't declare an explicit app_label and isn't in an "
        "application in INSTALLED_APPS."
    )
    registry = load(houses=f"raise RuntimeError({said!r})\n")
    first = registry.broken["some_spiders.houses"].partition("\n")[0]
    assert first.endswith(
        "the app of estate.models.House is not in CRAWLFRAME_APPS of this node, and django.setup() "
        "adds none; name it and restart"
    )


# -- files that belong to the code -----------------------------------------------------------------


def test_helper_modules_and_declared_files_belong_to_the_code(
    load: Callable[..., Registry], tmp_path: Path
) -> None:
    write(tmp_path / "my_helpers/__init__.py", "")
    write(tmp_path / "my_helpers/prices.py", "import json.tool\nfrom . import rates\n")
    write(tmp_path / "my_helpers/rates.py", "")
    write(tmp_path / "my_helpers/unused.py", "")
    write(tmp_path / "my_broken_helper.py", "x = = 1\n")
    write(tmp_path / "prices.csv", "")
    write(tmp_path / "pages/a.html", "")
    absolute = write(tmp_path / "absolute.csv", "")
    inner = write(tmp_path / "some_spiders/inner.csv", "")
    declared = ["../prices.csv", "../pages", str(absolute), "inner.csv"]
    registry = load(
        one="import my_helpers.prices\n" + spider("one", f"files = {declared}"),
        deep__two="from ..one import Some as Base\nclass Two(Base):\n    name = 'two'\n",
        three="import my_broken_helper\n",
    )
    assert [*registry.broken] == ["some_spiders.three"]
    expected = [
        "absolute.csv", "my_broken_helper.py", "my_helpers/__init__.py", "my_helpers/prices.py",
        "my_helpers/rates.py", "pages", "prices.csv",
    ]  # fmt: skip
    assert registry.files == [tmp_path / name for name in expected]
    assert inner not in registry.files
    assert registry.changed() == []
    write(tmp_path / "my_helpers/rates.py", "x = 1\n")
    assert tmp_path / "my_helpers/rates.py" in registry.changed()


def test_helpers_that_were_there_before_are_not_of_this_load(
    load: Callable[..., Registry], tmp_path: Path
) -> None:
    write(tmp_path / "early_helper.py", "")
    sys.path.insert(0, str(tmp_path))
    __import__("early_helper")
    assert load(one="import early_helper\n" + spider("one")).files == []


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ("['../gone.csv']", "gone.csv does not exist; correct the path, or add the file"),
        ("'prices.csv'", "files must be a list of paths"),
        ("7", "files must be a list of paths"),
        ("[7]", "files: 7 is not a path"),
        ("['']", "files: '' is not a path"),
    ],
)
def test_wrong_files_break_the_spider(
    load: Callable[..., Registry], tmp_path: Path, files: str, words: str
) -> None:
    registry = load(one=spider("one", f"files = {files}"))
    assert registry.spiders == {}
    first = registry.broken["some_spiders.one"].partition("\n")[0]
    assert first.startswith(f"{tmp_path / 'some_spiders/one.py'}:2: ")
    assert words in first


def test_a_missing_declared_file_is_known_so_that_it_can_be_waited_for(
    load: Callable[..., Registry], tmp_path: Path
) -> None:
    assert load(one=spider("one", "files = ['../gone.csv']")).files == [tmp_path / "gone.csv"]


def test_parts_of_the_engine_are_not_of_the_authors_files(tmp_path: Path) -> None:
    tree = tmp_path / "some_spiders"
    write(tree / "one.py", "import crawlframe.embedded.server\n" + spider("one"))

    def load() -> list[str]:
        sys.modules.pop("crawlframe.embedded.server", None)
        return [str(path) for path in Registry.load(tree).files]

    assert in_child(load) == []


def test_what_is_imported_after_the_load_is_warned_of(tmp_path, monkeypatch, caplog):
    """It may be newer than the version on the rows."""
    package = tmp_path / "sealedpack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (tmp_path / "sealedhelp.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry.load("sealedpack")
    registry.seal()
    finder, ours = SourceFinder.install(), [f"{place}absent.py" for place in FRAMEWORK]
    try:
        importlib.import_module("sealedhelp")
        for file in ours:
            finder.compiled(b"", SourceFileLoader("absent", file))
    finally:
        finder.sealed = False
        for file in ours:
            finder.loaded.pop(file, None)
    assert "sealedhelp.py is imported while spiders run" in caplog.text
    assert "absent.py" not in caplog.text  # the framework imports some of its modules when needed


class TextFiles:
    """A source: every .txt file of the package is a spider with the file's words as its doc."""

    def __init__(self, outside: Path) -> None:
        self._outside = outside

    def find(self, registry: Registry) -> Iterator[type[Spider]]:
        for path in sorted(registry.directory.glob("*.txt")):
            kind = registry.attempt(path.name, path, partial(self._make, registry, path))
            if kind is not None:
                yield kind

    def _make(self, registry: Registry, path: Path) -> type[Spider]:
        words = registry.read(path).decode()
        if words == "bad":
            raise ValueError("bad words")
        more = {"name": path.stem, "__doc__": words, "__module__": path.name, "__file__": path}
        return type("Text", (Spider,), more)

    def files(self) -> list[Path]:
        return [self._outside]


def test_spiders_of_another_source(load: Callable[..., Registry], tmp_path: Path) -> None:
    write(tmp_path / "some_spiders" / "words.txt", "All of it.")
    write(tmp_path / "some_spiders" / "other.txt", "bad")
    started: list[str] = []
    options = {"sources": [TextFiles(tmp_path / "far")], "loading": started.append}
    registry = load(options, good=GOOD)
    assert sorted(registry.spiders) == ["good", "words"]
    assert registry.info("words").doc == "All of it."
    assert "ValueError: bad words\n" in registry.broken["other.txt"]
    assert registry.files == [tmp_path / "far"]
    assert started[-2:] == ["other.txt", "words.txt"]
    write(tmp_path / "some_spiders" / "words.txt", "Changed.")
    assert registry.changed() == [tmp_path / "some_spiders" / "words.txt"]


def test_what_killed_a_process_is_not_tried_again(
    load: Callable[..., Registry], tmp_path: Path
) -> None:
    write(tmp_path / "some_spiders" / "words.txt", "All of it.")
    registry = load(
        {"sources": [TextFiles(tmp_path)], "skip": {"words.txt": "it kills"}}, good=GOOD
    )
    assert registry.broken == {"words.txt": "it kills"}


def test_two_sources_with_one_name(load: Callable[..., Registry], tmp_path: Path) -> None:
    write(tmp_path / "some_spiders" / "good.txt", "Mine.")
    registry = load({"sources": [TextFiles(tmp_path)]}, good=GOOD)
    assert not registry.spiders
    place = f"{tmp_path}/some_spiders/good.txt:1: the spider name 'good' is used by "
    assert registry.broken["good.txt"].startswith(place)
