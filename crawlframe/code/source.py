"""Source: the authors' modules are compiled from the files on disk now.

Python trusts a .pyc by size and whole-second time, and so may run code that no longer exists."""

from __future__ import annotations

import linecache
import logging
import marshal
import os
import signal
import site
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from hashlib import blake2b
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import MAGIC_NUMBER, decode_source
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, TypeVar

from crawlframe.code.trace import Trace
from crawlframe.code.version import MARK, Contents, content, stamp_of

log = logging.getLogger(__name__)

Result = TypeVar("Result")

OURS = ("crawlframe", "crawlservice")  # packages of the framework
# In a checkout, their files look like the authors'.
FRAMEWORK = tuple(f"{Path(__file__).parents[2] / name}/" for name in OURS)
INSTALLED = ("site-packages", "dist-packages")
FULL = 64 << 20  # bytes of bytecode that are cached
DAY = 86400.0  # seconds
RING = 1.0  # seconds between two interruptions of an import that swallows the first


class SourceFinder(MetaPathFinder):
    """Lets all other finders search, and loads the authors' own modules that they find from source:
    plain source files that are neither Python's nor installed. Modules with another loader
    (extension modules, zip files, rewritten tests) are left as they were found."""

    def __init__(self) -> None:
        self.trees: set[str] = set()  # directories of the authors' own code, wherever they are
        self.loaded: dict[str, bytes] = {}  # file -> digest of the compiled or linked content
        self.refused: dict[str, str] = {}  # module -> why it must not be imported
        self.names: dict[str, str] = {}  # loaded module -> its file
        self.trace: Trace | None = None  # notes the imports of the modules that are loaded
        self.sealed = False  # all is loaded; later imports may be of another version
        self.bytecode: Bytecode | None = None
        self.contents = Contents()
        self._foreign = tuple(f"{place}/" for place in _python_places())

    @classmethod
    def install(cls) -> SourceFinder:
        """Returns the finder of this process, in front of all others."""
        mine = [finder for finder in sys.meta_path if isinstance(finder, cls)]
        finder = mine[0] if mine else cls()
        sys.meta_path[:] = [finder, *(other for other in sys.meta_path if other is not finder)]
        return finder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self.refused:
            raise ImportError(self.refused[fullname].partition("\n")[0], name=fullname)
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                self._take(spec)
                return spec
        return None

    def _take(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        # Subclasses treat the source in their own way.
        if type(loader) is SourceFileLoader and self.owns(loader.path):
            spec.loader = _Loader(loader.name, loader.path, self)
        elif type(loader) is SourcelessFileLoader and self.owns(loader.path):
            text = f"{loader.path} has no source; put it next to it, or delete the file"
            raise ModuleNotFoundError(text, name=spec.name)
        elif type(loader) is ExtensionFileLoader and self.owns(loader.path):
            self.loaded[loader.path] = content(loader.path)

    def owns(self, file: str) -> bool:
        """Whether a file is the authors' own, by its location."""
        if any(file.startswith(f"{tree}/") for tree in self.trees):
            return True
        return (
            file.startswith("/")
            and not file.startswith(self._foreign)
            and not any(f"/{name}/" in file for name in INSTALLED)
        )

    def compiled(self, source: bytes, loader: SourceFileLoader) -> CodeType:
        """The code of a module whose file has these bytes. Raises SyntaxError and the like."""
        file = os.fspath(loader.path)
        if self.sealed and not file.startswith(FRAMEWORK):  # it imports some modules when needed
            log.warning(
                "%s is imported while spiders run: it may be newer than the version on the rows; "
                "import it at the top of the module that uses it",
                file,
            )
        mark = blake2b(source, digest_size=MARK).digest()
        self.loaded[file] = mark
        try:
            # Tracebacks show the code that runs, even if the file has changed since.
            lines = decode_source(source).splitlines(keepends=True)
            linecache.cache[file] = (len(source), None, lines, file)
        except (SyntaxError, UnicodeDecodeError):
            linecache.cache.pop(file, None)
        code = self.bytecode and self.bytecode.get(file, mark)
        if not code:
            code = loader.source_to_code(source, file)
            if self.bytecode:
                self.bytecode.put(file, mark, code)
        return code

    def read(self, path: Path) -> bytes:
        """The contents of a file that is part of the code though it is no module. Raises
        OSError."""
        data = path.read_bytes()
        self.loaded[os.fspath(path)] = blake2b(data, digest_size=MARK).digest()
        return data

    def changed(self) -> list[str]:
        """Files whose bytes on disk differ from the loaded bytes."""
        found = {file: stamp for file in self.loaded if (stamp := stamp_of(file))}
        read = self.contents.reader(found)
        return [
            file for file, mark in self.loaded.items() if file not in found or read(file) != mark
        ]

    def forget(self, names: Collection[str]) -> None:
        """The modules of these names are no longer loaded."""
        for name in names:
            if (file := self.names.pop(name, None)) is not None:
                self.loaded.pop(file, None)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, finder: SourceFinder) -> None:
        super().__init__(name, path)
        self._finder = finder

    def get_code(self, fullname: str) -> CodeType:
        self._finder.names[fullname] = self.path
        code = self._finder.compiled(self.get_data(os.fspath(self.path)), self)
        if self._finder.trace is not None:
            self._finder.trace.note_code(fullname, code)
        return code

    def exec_module(self, module: ModuleType) -> None:
        run = partial(super().exec_module, module)
        if self._finder.trace is None:
            run()
        else:
            self._finder.trace.run(module.__name__, run, module)


class Bytecode:
    """A cache of compiled code, keyed by a digest of its source; Python's own is keyed by a time
    stamp. Damaged or foreign files count as missing, and failed writes do no harm. The directory
    must be private, because its contents are executed."""

    def __init__(self, directory: Path, full: int = FULL) -> None:
        self._directory = directory
        self._full = full
        python = f"{sys.implementation.cache_tag} {sys.flags.optimize} {sys.hexversion:x}"
        self._python = MAGIC_NUMBER + python.encode()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = directory.stat()
            self._usable = found.st_uid == os.getuid() and not found.st_mode & 0o022
        except OSError:
            self._usable = False

    def get(self, file: str, mark: bytes) -> CodeType | None:
        """The code of a file whose bytes have this digest; None when it is not cached."""
        if not self._usable:
            return None
        try:
            with (self._directory / self._name(file, mark)).open("rb", buffering=0) as entry:
                if time.time() - os.fstat(entry.fileno()).st_mtime > DAY:
                    os.utime(entry.fileno())  # marks it as used
                data = memoryview(entry.read())
            if blake2b(data[MARK:], digest_size=MARK).digest() != data[:MARK]:
                return None
            code = marshal.loads(data[MARK:])
        except (OSError, ValueError, EOFError, TypeError):
            return None
        return code if isinstance(code, CodeType) else None

    def put(self, file: str, mark: bytes, code: CodeType) -> None:
        """Caches the code of a file."""
        if not self._usable:
            return
        name = self._name(file, mark)
        data = marshal.dumps(code)
        try:
            descriptor, draft = tempfile.mkstemp(dir=self._directory)
            try:
                with os.fdopen(descriptor, "wb", buffering=0) as entry:
                    entry.write(blake2b(data, digest_size=MARK).digest() + data)
                Path(draft).replace(self._directory / name)
            except BaseException:
                Path(draft).unlink(missing_ok=True)
                raise
            if name.startswith("00"):  # one in 256
                self.trim()
        except OSError:
            pass

    def trim(self) -> None:
        """If the cache is too large, deletes the least recently used, down to half of the limit."""
        found = []
        with os.scandir(self._directory) as entries:
            for entry in entries:
                try:
                    found.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
                except FileNotFoundError:  # another process trims as well
                    continue
        left = sum(size for _, size, _ in found)
        if left <= self._full:
            return
        for _, size, path in sorted(found):
            if left <= self._full // 2:
                break
            Path(path).unlink(missing_ok=True)
            left -= size

    def _name(self, file: str, mark: bytes) -> str:
        return blake2b(self._python + mark + os.fsencode(file), digest_size=MARK).hexdigest()


class LoadTimeout(BaseException):
    """A load took too long. No Exception, so that ``except Exception`` does not swallow it."""


def within(seconds: float | None, what: Callable[[], Result]) -> Result:
    """Calls ``what``; raises LoadTimeout in it after ``seconds`` (None: no limit), and again each
    second if it continues. Signals arrive only in the main thread; elsewhere there is no limit.

    Code that does not return to the interpreter is not interrupted."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        return what()

    def ring(number: int, frame: FrameType | None) -> Any:
        # In this function itself there is nothing to interrupt, only a handler to restore.
        if frame is not None and frame.f_code is not within.__code__:
            raise LoadTimeout(f"import took longer than {seconds:g} s")

    started = time.monotonic()
    handler = signal.signal(signal.SIGALRM, ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, RING)
    try:
        return what()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if left:
            left = max(left - (time.monotonic() - started), 0.001)
            signal.setitimer(signal.ITIMER_REAL, left, interval)


def _python_places() -> set[str]:
    paths = sysconfig.get_paths()
    places = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {*site.getsitepackages(), site.getusersitepackages()}
    return places | {os.path.realpath(place) for place in places}
