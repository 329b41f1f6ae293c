"""Source: the code on the disk runs, and other ways to load modules keep working."""

from __future__ import annotations

import importlib
import importlib.resources
import importlib.util
import inspect
import marshal
import os
import pkgutil
import py_compile
import signal
import subprocess
import sys
import threading
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from types import ModuleType
from zipimport import zipimporter

import pytest

from crawlframe.code.source import Bytecode, LoadTimeout, SourceFinder, within
from crawlframe.code.version import content

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.fixture
def finder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SourceFinder]:
    """An installed finder that knows nothing yet, and ``tmp_path`` to import from."""
    modules = {*sys.modules}
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    sys.meta_path[:] = [other for other in sys.meta_path if not isinstance(other, SourceFinder)]
    importlib.invalidate_caches()
    yield SourceFinder.install()
    for name in {*sys.modules} - modules:
        del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def plain_python(*arguments: str, cwd: Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=60
    )
    return done.stdout + done.stderr


def forget(name: str) -> None:
    for module in [*sys.modules]:
        if module == name or module.startswith(f"{name}."):
            del sys.modules[module]
    importlib.invalidate_caches()


# -- bytecode that lies ------------------------------------------------------------------------


def equal_size_within_a_second(path: Path) -> None:
    py_compile.compile(str(path))
    times = path.stat()
    path.write_text("value = 'new'\n")
    # A later moment of the same second.
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns // 10**9 * 10**9 + 900_000_000))


def restored_time(path: Path) -> None:
    os.utime(path, (10**9, 10**9))
    py_compile.compile(str(path))
    path.write_text("value = 'new'\n")
    os.utime(path, (10**9, 10**9))


def swapped_link(path: Path) -> None:
    old, new = path.parent / "releases/1", path.parent / "releases/2"
    for release in (old, new):
        release.mkdir(parents=True)
    path.rename(old / "it.py")
    write(new / "it.py", "value = 'new'\n")
    for release in (old, new):
        os.utime(release / "it.py", (10**9, 10**9))
    path.symlink_to(old / "it.py")
    py_compile.compile(str(path))
    path.unlink()
    path.symlink_to(new / "it.py")


def poisoned(path: Path) -> None:
    py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    path.write_text("value = 'new'\n")


@pytest.mark.parametrize(
    "change", [equal_size_within_a_second, restored_time, swapped_link, poisoned]
)
def test_stale_bytecode_is_not_run(
    finder: SourceFinder, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    change(write(tmp_path / "stale.py", "value = 'old'\n"))
    assert plain_python("-c", "import stale; print(stale.value)", cwd=tmp_path) == "old\n"
    assert importlib.import_module("stale").value == "new"


def test_no_bytecode_is_written_beside_the_source(finder: SourceFinder, tmp_path: Path) -> None:
    write(tmp_path / "mine/part.py", "")
    importlib.import_module("mine.part")
    assert not [*tmp_path.rglob("__pycache__")]
    plain_python("-c", "import mine.part", cwd=tmp_path)
    assert [*tmp_path.rglob("__pycache__")]


def test_bytecode_without_source_is_refused(finder: SourceFinder, tmp_path: Path) -> None:
    path = write(tmp_path / "lonely.py", "value = 'old'\n")
    py_compile.compile(str(path), cfile=str(tmp_path / "lonely.pyc"))
    path.unlink()
    assert plain_python("-c", "import lonely; print(lonely.value)", cwd=tmp_path) == "old\n"
    with pytest.raises(ModuleNotFoundError, match=r"lonely\.pyc has no source"):
        importlib.import_module("lonely")


# -- abilities of Python's own loader ----------------------------------------------------------


def test_packages_resources_and_sources_are_found(finder: SourceFinder, tmp_path: Path) -> None:
    write(tmp_path / "shops/__init__.py", "from . import prices\n")
    write(tmp_path / "shops/prices.py", "from .deep import names\n\ndef price():\n    return 7\n")
    write(tmp_path / "shops/deep/names.py", "from ..deep import other\n")  # no __init__
    write(tmp_path / "shops/deep/other.py", "")
    write(tmp_path / "shops/rates.csv", "1,2\n")
    shops = importlib.import_module("shops")
    assert shops.prices.names.other.__name__ == "shops.deep.other"
    assert (importlib.resources.files("shops") / "rates.csv").read_text() == "1,2\n"
    assert pkgutil.get_data("shops", "rates.csv") == b"1,2\n"
    assert inspect.getsource(shops.prices.price) == "def price():\n    return 7\n"
    assert shops.__file__ == str(tmp_path / "shops/__init__.py")
    names = ("__init__", "prices", "deep/names", "deep/other")
    assert {*finder.loaded} == {str(tmp_path / f"shops/{name}.py") for name in names}


def test_tracebacks_show_the_code_that_runs(finder: SourceFinder, tmp_path: Path) -> None:
    path = write(tmp_path / "failing.py", "def fail():\n    raise ValueError('the old one')\n")
    module = importlib.import_module("failing")
    path.write_text("# a comment\n\ndef fail(): pass\n")
    with pytest.raises(ValueError, match="the old one") as raised:
        module.fail()
    text = "".join(traceback.format_exception(raised.value))
    assert 'failing.py", line 2, in fail\n    raise ValueError' in text


def test_an_odd_encoding_is_read(finder: SourceFinder, tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes("# coding: latin-1\r\nname = 'Käse'\r\n".encode("latin-1"))
    assert importlib.import_module("latin").name == "Käse"
    (tmp_path / "wrong.py").write_bytes("name = 'Käse'\n".encode("latin-1"))
    with pytest.raises(SyntaxError):
        importlib.import_module("wrong")


@pytest.mark.parametrize("cached", [False, True])
def test_optimised_python_has_code_of_its_own(tmp_path: Path, cached: bool) -> None:
    write(tmp_path / "checked.py", "kept = False\nassert [kept := True]\n")
    program = (
        "import sys; from pathlib import Path; from crawlframe.code.source import *\n"
        "finder = SourceFinder.install()\n"
        f"finder.bytecode = Bytecode(Path('bytecode')) if {cached} else None\n"
        "import checked; print(checked.kept)\n"
    )
    for _ in range(2):
        assert plain_python("-c", program, cwd=tmp_path) == "True\n"
        assert plain_python("-O", "-c", program, cwd=tmp_path) == "False\n"
    assert (tmp_path / "bytecode").exists() == cached


# -- whose modules -----------------------------------------------------------------------------


def test_only_the_authors_own_is_taken(finder: SourceFinder, tmp_path: Path) -> None:
    write(tmp_path / "lib/site-packages/bought.py", "")
    write(tmp_path / "lib/site-packages/own_spiders/mine.py", "")
    sys.path.insert(0, str(tmp_path / "lib/site-packages"))
    finder.trees.add(str(tmp_path / "lib/site-packages/own_spiders"))
    importlib.invalidate_caches()
    bought, mine = map(importlib.import_module, ("bought", "own_spiders.mine"))
    assert type(bought.__loader__) is SourceFileLoader
    assert [*finder.loaded] == [mine.__file__]
    assert not finder.owns(str(inspect.getfile(importlib)))
    assert not finder.owns(str(pytest.__file__))
    assert not finder.owns("<frozen importlib._bootstrap>")
    assert finder.owns(__file__)


def test_zip_files_and_extension_modules_are_left_to_python(
    finder: SourceFinder, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "parts.zip", "w") as parts:
        parts.writestr("zipped.py", "value = 1\n")
    sys.path.insert(0, str(tmp_path / "parts.zip"))
    assert isinstance(importlib.import_module("zipped").__loader__, zipimporter)
    quick = write(tmp_path / f"quick{EXTENSION_SUFFIXES[0]}", "")
    spec = importlib.util.find_spec("quick")
    assert spec is not None
    assert type(spec.loader) is ExtensionFileLoader
    assert {*finder.loaded} == {str(quick)}


class EditableFinder(MetaPathFinder):
    """Like the finder that setuptools installs for ``pip install --editable``."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = fullname == self.name
        return importlib.util.spec_from_file_location(fullname, self.path) if found else None


def test_editable_installs_come_from_source(finder: SourceFinder, tmp_path: Path) -> None:
    path = write(tmp_path / "elsewhere/edited.py", "value = 'old'\n")
    poisoned(path)
    sys.meta_path.append(EditableFinder("edited", path))
    assert importlib.import_module("edited").value == "new"
    assert [*finder.loaded] == [str(path)]


@pytest.mark.process
@pytest.mark.parametrize("mode", ["importlib", "prepend"])
def test_pytest_still_explains_asserts(tmp_path: Path, mode: str) -> None:
    write(
        tmp_path / "test_a.py",
        "from crawlframe.code.source import SourceFinder\nSourceFinder.install()\n\n"
        "def test(): pass\n",
    )
    write(tmp_path / "test_b.py", "def test():\n    left = [1, 2]\n    assert left == [1, 3]\n")
    output = plain_python("-m", "pytest", "-q", f"--import-mode={mode}", cwd=tmp_path)
    assert "At index 1 diff: 2 != 3" in output


def test_there_is_one_finder_and_it_stays_in_front(finder: SourceFinder) -> None:
    sys.meta_path.insert(0, EditableFinder("nothing", Path("nothing.py")))
    assert SourceFinder.install() is finder
    assert sys.meta_path[0] is finder
    assert sum(isinstance(other, SourceFinder) for other in sys.meta_path) == 1


def test_a_refused_module_says_why(finder: SourceFinder, tmp_path: Path) -> None:
    write(tmp_path / "killer.py", "raise SystemError\n")
    finder.refused["killer"] = "it killed the last one\nTraceback"
    with pytest.raises(ImportError, match=r"^it killed the last one$"):
        importlib.import_module("killer")


# -- loaded files ------------------------------------------------------------------------------


def test_what_changed_since_it_was_compiled_is_known(finder: SourceFinder, tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.py", "") for name in ("kept", "edited2", "gone")]
    for path in paths:
        importlib.import_module(path.stem)
    assert finder.loaded == {str(path): content(path) for path in paths}
    assert finder.changed() == []
    paths[1].write_text("x = 1\n")
    paths[2].unlink()
    assert finder.changed() == [*map(str, paths[1:])]
    with pytest.raises(SyntaxError):  # a file that does not compile belongs to it too
        importlib.import_module(write(tmp_path / "broken_one.py", "x = = 1").stem)
    assert str(tmp_path / "broken_one.py") in finder.loaded


# -- bytecode of our own -----------------------------------------------------------------------


@pytest.fixture
def cached(finder: SourceFinder, tmp_path: Path) -> tuple[Path, Path]:
    """A module ``kept`` that was imported, and the only file of bytecode that it left."""
    finder.bytecode = Bytecode(tmp_path / "var/bytecode")
    path = write(tmp_path / "kept.py", "value = 'source'\n")
    importlib.import_module("kept")
    (entry,) = (tmp_path / "var/bytecode").iterdir()
    return path, entry


def import_again(name: str) -> ModuleType:
    forget(name)
    return importlib.import_module(name)


def test_kept_bytecode_is_used_for_the_very_same_source(
    finder: SourceFinder, cached: tuple[Path, Path]
) -> None:
    path, _ = cached
    assert finder.bytecode is not None
    finder.bytecode.put(str(path), content(path), compile("value = 'kept'", str(path), "exec"))
    assert import_again("kept").value == "kept"
    times = path.stat()
    path.write_text("value = 'edited'\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert import_again("kept").value == "edited"
    path.write_text("value = 'source'\n")
    assert import_again("kept").value == "kept"
    copy = write(path.with_name("copy_of_it.py"), path.read_text())
    assert importlib.import_module("copy_of_it").value == "source"
    assert finder.loaded[str(copy)] == finder.loaded[str(path)]


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 40, -1])
def test_torn_bytecode_counts_as_none(cached: tuple[Path, Path], length: int) -> None:
    _, entry = cached
    whole = entry.read_bytes()
    entry.write_bytes(whole[:length])
    assert import_again("kept").value == "source"
    assert entry.read_bytes() == whole


def test_bytecode_with_a_wrong_byte_counts_as_none(cached: tuple[Path, Path]) -> None:
    _, entry = cached
    whole = entry.read_bytes()
    entry.write_bytes(whole.replace(b"source", b"soured"))
    assert import_again("kept").value == "source"
    assert entry.read_bytes() == whole


@pytest.mark.parametrize("inner", [b"", b"garbage", marshal.dumps("no code")])
def test_strange_bytecode_counts_as_none(cached: tuple[Path, Path], inner: bytes) -> None:
    _, entry = cached
    whole = entry.read_bytes()
    entry.write_bytes(blake2b(inner, digest_size=16).digest() + inner)
    assert import_again("kept").value == "source"
    assert entry.read_bytes() == whole


def test_a_directory_that_others_may_write_is_not_used(
    finder: SourceFinder, cached: tuple[Path, Path]
) -> None:
    path, entry = cached
    entry.parent.chmod(0o777)
    finder.bytecode = Bytecode(entry.parent)
    path.write_text("value = 'edited'\n")
    assert import_again("kept").value == "edited"
    assert [*entry.parent.iterdir()] == [entry]


def test_without_a_place_for_bytecode_modules_load_all_the_same(
    finder: SourceFinder, tmp_path: Path
) -> None:
    write(tmp_path / "file", "")
    for place in (tmp_path / "file", tmp_path / "file/below"):
        finder.bytecode = Bytecode(place)
        write(tmp_path / "homeless.py", "value = 1\n")
        assert import_again("homeless").value == 1
    gone = tmp_path / "gone"
    finder.bytecode = Bytecode(gone)
    gone.rmdir()
    assert import_again("homeless").value == 1


def test_bytecode_stays_within_its_bound(tmp_path: Path) -> None:
    bytecode = Bytecode(tmp_path, full=200_000)
    code = compile(f"x = {'y' * 1000!r}", "x.py", "exec")
    marks = [number.to_bytes(16) for number in range(2000)]
    bytecode.put("x.py", marks[0], code)
    (first,) = tmp_path.iterdir()
    os.utime(first, (time.time() - 10 * 86400,) * 2)
    assert bytecode.get("x.py", marks[0]) == code
    assert time.time() - first.stat().st_mtime < 86400  # it is in use, so it stays longer
    os.utime(first, (time.time() - 10 * 86400,) * 2)
    for mark in marks[1:]:
        bytecode.put("x.py", mark, code)
    left = sum(entry.stat().st_size for entry in tmp_path.iterdir())
    assert 0 < left < 1_500_000
    bytecode.trim()
    assert 0 < sum(entry.stat().st_size for entry in tmp_path.iterdir()) <= 200_000
    assert not first.exists()


# -- the time limit ----------------------------------------------------------------------------


def loop() -> None:
    while True:
        pass


def loop_that_swallows_exceptions() -> None:
    while True:
        try:
            loop()
        except Exception:
            pass


def loop_that_swallows_the_first() -> None:
    try:
        loop()
    except BaseException:
        loop()


def sleep() -> None:
    time.sleep(60)


@pytest.mark.parametrize(
    "endless", [loop, loop_that_swallows_exceptions, loop_that_swallows_the_first, sleep]
)
def test_what_takes_too_long_is_interrupted_where_it_stands(endless: Callable[[], None]) -> None:
    with pytest.raises(LoadTimeout, match=r"^import took longer than 0\.1 s$") as raised:
        within(0.1, endless)
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(raised.value.__traceback__)]
    assert endless.__name__ in names


def test_the_caller_gets_its_alarm_back() -> None:
    rung = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 60, 30)
        assert within(20, lambda: 7) == 7
        left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
        assert 20 < left <= 60
        assert interval == 30
        signal.raise_signal(signal.SIGALRM)
        assert rung.is_set()
        with pytest.raises(ZeroDivisionError):
            within(20, lambda: 1 // 0)
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_no_limit_without_a_number_and_in_other_threads() -> None:
    assert within(None, lambda: signal.getitimer(signal.ITIMER_REAL)) == (0, 0)
    answers: list[tuple[float, float]] = []
    thread = threading.Thread(
        target=lambda: answers.append(within(20, lambda: signal.getitimer(signal.ITIMER_REAL)))
    )
    thread.start()
    thread.join()
    assert answers == [(0, 0)]
