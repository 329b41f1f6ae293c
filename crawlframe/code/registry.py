"""Registry: imports every module of the spiders package, and asks the other sources of spiders;
holds spiders and broken modules.

Every process that runs or checks spiders loads one; the service itself never imports spiders."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from importlib.machinery import SourceFileLoader
from itertools import chain
from os import PathLike
from os.path import normpath
from pathlib import Path
from types import ModuleType
from typing import Protocol

from msgspec.structs import replace

from crawlframe.base.program import command
from crawlframe.base.scrapy_names import INHERITS, is_scrapy_spider
from crawlframe.code.failure import ENGINE, describe_failure, standing_in
from crawlframe.code.garbage import drop
from crawlframe.code.package import find_package
from crawlframe.code.source import Bytecode, LoadTimeout, Result, SourceFinder, within
from crawlframe.code.trace import Trace
from crawlframe.code.version import Stamp, stamps
from crawlframe.errors import CrawlframeError, SpiderError, UnknownSpider, did_you_mean
from crawlframe.spider.spider import Spider, SpiderInfo, describe

SPIDER_NAME = re.compile(r"[\w.-]{1,100}")


class NotRenewable(CrawlframeError):
    """A registry has to be loaded as a whole, because more than modules has changed."""


class SpiderSource(Protocol):
    """A kind of spiders that is loaded with each version of the code, and reloaded like modules.

    Its classes have a ``__module__`` that is the name under which they are refused when one of them
    breaks the contract. A class that is not in a module of this name says where it is in the class
    attribute ``__file__``."""

    def find(self, registry: Registry) -> Iterable[type[Spider]]:
        """Yields the spider classes that load. One that does not is passed to ``registry``, so that
        the others still load."""

    def files(self) -> Iterable[Path]:
        """The files and directories outside the spiders package that are watched, also missing
        ones. Called after ``find``."""


class Registry:
    """The spiders of one package.

    ``spiders``: name -> class. ``infos``: the published description of each, by name. ``broken``:
    module -> its problem; the first line names file, line and error, a traceback may follow.
    ``files``: files outside the package that belong to the code: the authors' modules that were
    imported for it, and files that spiders declare; a directory stands for all files below.
    ``listed``: the files of the package, sorted, with their stamps before the import. ``renewed``:
    the spiders whose modules the last renewal has imported again; None before there was one."""

    def __init__(self, finder: SourceFinder, limit: float | None) -> None:
        self.spiders: dict[str, type[Spider]] = {}
        self.infos: list[SpiderInfo] = []
        self.broken: dict[str, str] = {}
        self.files: list[Path] = []
        self.directory = Path()  # of the package
        self.listed: dict[str, Stamp] = {}
        self.renewed: list[str] | None = None
        self.owners: Callable[[str], tuple[str, ...]] = lambda spider: ()
        self._finder = finder
        self._limit = limit
        self._loading: Callable[[str], None] = lambda name: None
        # Module -> its spiders.
        self._found: dict[str, list[tuple[type[Spider], SpiderInfo]]] = defaultdict(list)
        self._declared: dict[str, list[Path]] = defaultdict(list)  # module -> files of its spiders
        self._before: set[str] = set()  # files that were loaded for something else
        self._failed: dict[str, str] = {}  # what is broken apart from names used twice
        self._ran_into = False  # an import has failed while it ran
        self._package: Path | str = ""
        self._modules: dict[str, Path] = {}  # of the package
        self.data = ""  # digest of the files that are no modules, as they were loaded; "": unknown

    @classmethod
    def load(
        cls,
        package: Path | str = "spiders",
        *,
        sources: Iterable[SpiderSource] = (),
        skip: Mapping[str, str] = {},
        limit: float | None = None,
        loading: Callable[[str], None] = lambda module: None,
        bytecode: Path | None = None,
        keep: bool = False,
        trace: bool = False,
    ) -> Registry:
        """Imports all modules of a package, given by name or by its directory, from source, and
        loads the spiders that ``sources`` find. Never raises errors of a module; only
        KeyboardInterrupt is passed on.

        Modules in ``skip`` (name -> reason) are not imported and count as broken for that reason.
        One import may take ``limit`` seconds. ``loading`` is called with the name of each module
        before its import. The directory ``bytecode`` caches compiled code for faster loads.
        ``keep``: modules of the package that were imported before stay as they are. ``trace``: it
        can be renewed, unless modules were skipped."""
        finder = SourceFinder.install()
        finder.bytecode = Bytecode(bytecode) if bytecode else None
        finder.refused, finder.sealed = dict(skip), False
        finder.trace = Trace() if trace and not skip else None
        registry = cls(finder, limit)
        try:
            registry._loading = loading
            registry._load(package, sources, keep=keep)
        finally:
            finder.refused = {}
        return registry

    def _load(
        self, package: Path | str, sources: Iterable[SpiderSource], *, keep: bool = False
    ) -> None:
        name = package.resolve().name if isinstance(package, Path) else package
        directory = _enter(package) if isinstance(package, Path) else find_package(package)
        if directory is None or not directory.is_dir():
            place = directory or f"package {name!r}"
            self.refuse(name, f"{place}: there is no such directory; make it, or start in the "
                              "directory that holds it")  # fmt: skip
            return
        self._package, self.directory = package, directory
        self.own(directory)
        self._before = {*self._finder.loaded}
        if not keep:
            _forget(name, _from_bytecode)
        self.listed = stamps(directory)
        self._modules = dict(_modules(name, directory, self.listed))
        self._take_all(self._modules, sources)

    def _take_all(self, modules: Iterable[str], sources: Iterable[SpiderSource]) -> None:
        trace = self._finder.trace
        with trace.importing() if trace is not None else nullcontext():
            for name in modules:
                path = self._modules[name]
                module = self._import(name, path)
                for kind in _classes_of(module) if module is not None else ():
                    if issubclass(kind, Spider) and kind.name:
                        self._take(kind, path)
                    elif is_scrapy_spider(kind):
                        self.refuse(name, f"{_place(kind, path)}: {kind.__name__}: {INHERITS}")
            for source in sources:
                for kind in source.find(self):
                    self._take(kind, _file(kind))
                self._declared[""] += source.files()
        self._failed = {**self.broken}
        self._settle()
        outside = {str(path) for paths in self._declared.values() for path in paths}
        outside |= self._finder.loaded.keys() - self._before
        before, inside = self.files, (f"{self.directory}/", f"{ENGINE}/")
        self.files = sorted(Path(path) for path in outside if not f"{path}/".startswith(inside))
        if trace is not None and (not self.data or self.files != before):
            self.data = self._data_on_disk()

    def renew(
        self,
        sources: Iterable[SpiderSource],
        *,
        limit: float | None = None,
        loading: Callable[[str], None] = lambda module: None,
    ) -> None:
        """Imports again the modules that have changed since they were loaded, and those that depend
        on them; the result is that of loading everything. Raises NotRenewable if it might not be;
        this process is of no more use then.

        It must have been loaded with ``trace``, and its garbage collected by nobody since."""
        self._limit, self._loading, self._finder.sealed = limit, loading, False
        trace = self._finder.trace
        assert trace is not None
        if isinstance(self._package, Path) and self._package.resolve() != self.directory:
            raise NotRenewable("the spiders are in another directory")
        self.listed = stamps(self.directory)
        modules = dict(_modules(self.directory.name, self.directory, self.listed))
        stale = self._stale(trace, modules)
        if far := sorted(stale & trace.effects.keys()):
            raise NotRenewable(f"the import of {far[0]} changes {trace.effects[far[0]]}")
        kept = self._modules.keys() - stale
        self._drop(stale, kept)
        self._modules = modules
        self._finder.refused, self._ran_into = {}, False
        again = [name for name in modules if name not in kept]
        self._take_all(again, sources)
        self.renewed = [info.name for name in again for _, info in self._found.get(name, ())]
        if self._ran_into:
            raise NotRenewable("an import failed, maybe because of what is there from before")
        if far := sorted(stale & trace.effects.keys()):
            raise NotRenewable(f"the import of {far[0]} changes {trace.effects[far[0]]}")

    def _stale(self, trace: Trace, now: Mapping[str, Path]) -> set[str]:
        """The modules to be imported again, also those that are gone. Raises NotRenewable."""
        if self._data_on_disk() != self.data:
            raise NotRenewable("a file that is no module has changed")
        found: set[str] = set()
        changed = {*self._finder.changed()}
        if others := changed - {*self._finder.names.values()}:
            raise NotRenewable(f"{min(others)} is no module in Python")
        found |= {name for name, path in self._finder.names.items() if path in changed}
        if came := trace.came(now):
            raise NotRenewable(f"{came} was missing, and exists now")
        if moved := {name for name, _ in now.items() ^ self._modules.items()}:
            found |= moved | trace.searching
        stale = trace.dependents(found)
        if 2 * len(stale & now.keys()) > len(now):
            raise NotRenewable("most modules have changed, or depend on a change")
        return stale

    def _drop(self, stale: set[str], kept: Collection[str]) -> None:
        if self._finder.trace is not None:
            self._finder.trace.forget(stale)
        self._finder.forget(stale)
        self.spiders, self.infos = {}, []
        # A module that failed fails again unless something that it needs has changed.
        self.broken = {name: text for name, text in self._failed.items() if name in kept}
        for name in self._found.keys() - kept:
            del self._found[name]
        self._declared = defaultdict(
            list, {name: paths for name, paths in self._declared.items() if name in kept}
        )
        if held := drop(stale):
            raise NotRenewable(f"something refers to the old {held[0]}")

    def _data_on_disk(self) -> str:
        found = {
            path: stamp
            for tree in (self.listed, *map(stamps, self.files))
            for path, stamp in tree.items()
            if not path.endswith(".py")
        }
        return self._finder.contents.digest(found, self.directory)

    @property
    def renewable(self) -> bool:
        """Whether ``renew`` may be called."""
        return self._finder.trace is not None and bool(self._package)

    def seal(self) -> None:
        """Marks the version as complete: a later import of the authors' modules logs a warning."""
        self._finder.sealed = True

    @property
    def loaded(self) -> Mapping[str, bytes]:
        """Every loaded file of the authors, with the digest of its content."""
        return self._finder.loaded

    def changed(self) -> list[Path]:
        """Files of modules that changed after the import."""
        return [*map(Path, self._finder.changed())]

    def get(self, name: str) -> type[Spider]:
        """The spider with this name. Raises UnknownSpider, which lists the known ones."""
        spider = self.spiders.get(name)
        if spider is None:
            raise unknown_spider(name, self.spiders, self.broken)
        return spider

    def info(self, name: str) -> SpiderInfo:
        """The published description of a spider. Raises UnknownSpider."""
        self.get(name)
        return next(info for info in self.infos if info.name == name)

    def _import(self, name: str, path: Path) -> ModuleType | None:
        if not all(part.isidentifier() for part in name.split(".")):
            self.refuse(name, f"{path}:1: a module's name may have only letters, digits and _")
            return None
        return self.attempt(name, path, lambda: importlib.import_module(name))

    # -- for sources ------------------------------------------------------------------------------

    def own(self, tree: Path) -> None:
        """Declares that the modules below a directory are the author's: they are compiled from the
        files on disk now, and belong to the code that is watched."""
        self._finder.trees.add(str(tree))

    def read(self, path: Path) -> bytes:
        """The contents of a file that belongs to the code. Raises OSError."""
        return self._finder.read(path)

    def attempt(self, name: str, path: Path, load: Callable[[], Result]) -> Result | None:
        """Returns the result of ``load``, within the time limit of an import. None when it raises,
        or may not be called because it killed a process before: ``name`` is broken then, and
        ``path`` is named if the error does not say where it was."""
        refused = self._finder.refused
        if name in refused:
            self.refuse(name, refused[name])
            return None
        self._loading(name)
        try:
            return within(self._limit, load)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module may raise anything, sys.exit() included
            self._ran_into |= not isinstance(error, SyntaxError)
            text = self._describe(error, path)
            self.refuse(name, text)
            if isinstance(error, LoadTimeout):
                # Other modules that import it must not wait for it again.
                refused[standing_in(error) or name] = text
            return None

    def refuse(self, name: str, problem: str) -> None:
        """Records that ``name`` does not load. ``problem`` starts with file and line."""
        # File names that are not valid text have surrogates, which cannot be sent anywhere.
        name, problem = (
            words.encode("utf-8", "backslashreplace").decode() for words in (name, problem)
        )
        before = self.broken.get(name)
        self.broken[name] = f"{before}\n{problem}" if before else problem

    # -- classes ----------------------------------------------------------------------------------

    def _take(self, spider: type[Spider], path: Path) -> None:
        name: object = spider.name
        if not isinstance(name, str) or not SPIDER_NAME.fullmatch(name):
            problem = f"name {name!r} must be up to 100 letters, digits and . _ -"
            self.refuse(spider.__module__, f"{_place(spider, path)}: {spider.__name__}: {problem}")
            return
        try:
            info = within(self._limit, lambda: describe(spider))
            self._declare(spider)
        except SpiderError as error:
            self.refuse(spider.__module__, f"{_place(spider)}: {error}")
        except (Exception, LoadTimeout) as error:  # metaclasses and annotations of authors run here
            self.refuse(spider.__module__, self._describe(error, _file(spider)))
        else:
            self._found[spider.__module__].append((spider, info))

    def _declare(self, spider: type[Spider]) -> None:
        owner = next(owner for owner in spider.__mro__ if "files" in vars(owner))
        names: object = spider.files
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            raise SpiderError(
                f'files must be a list of paths, such as ["prices.csv"], not {names!r}'
            )
        for name in names if owner is not Spider else ():
            if not isinstance(name, str | PathLike) or not str(name):
                raise SpiderError(f"files: {name!r} is not a path")
            # As written, not resolved: a link may point elsewhere in the next version.
            path = Path(normpath(_file(owner).parent / name))
            # Also a missing file: it may be added later.
            self._declared[spider.__module__].append(path)
            if not path.exists():
                raise SpiderError(
                    f"files: {path} does not exist; correct the path, or add the file"
                )

    def _settle(self) -> None:
        by_name = defaultdict(list)
        for one in chain.from_iterable(self._found.values()):
            by_name[one[1].name].append(one)
        for name, found in sorted(by_name.items()):
            if len(found) == 1:
                self.spiders[name], info = found[0]
                self.infos.append(replace(info, owners=self.owners(name)))
                continue
            spiders = [spider for spider, _ in found]
            places = [f"{spider.__module__}.{spider.__name__}" for spider in spiders]
            text = f"the spider name {name!r} is used by {' and '.join(places)}; change one"
            for module in {spider.__module__: None for spider in spiders}:
                first = next(spider for spider in spiders if spider.__module__ == module)
                self.refuse(module, f"{_place(first)}: {text}")

    def _describe(self, error: BaseException, path: Path) -> str:
        return describe_failure(error, path, self._finder.owns)


def unknown_spider(
    name: str, known: dict[str, type[Spider]] | dict[str, SpiderInfo], broken: dict[str, str]
) -> UnknownSpider:
    """The error for a name that is not among ``known``; lists those and suggests the nearest."""
    text = f"there is no spider {name!r}{did_you_mean(name, known)}. "
    text += f"Known: {', '.join(sorted(known))}" if known else "None is known"
    if not broken:
        text += f"; {command('check')} says what does not load"
    for first_line in (problem.partition("\n")[0] for problem in broken.values()):
        text += f"\nNot loaded: {first_line}"
    return UnknownSpider(text)


def _enter(directory: Path) -> Path:
    """Makes ``directory`` importable under its name, before any other package of that name."""
    directory = directory.resolve()
    loaded = sys.modules.get(directory.name)
    # Read before sys.path changes: a namespace package's path follows it.
    if loaded is not None and next(iter(getattr(loaded, "__path__", [])), "") != str(directory):
        _forget(directory.name, lambda module: True)
    parent = str(directory.parent)
    sys.path[:] = [parent, *(place for place in sys.path if place != parent)]
    importlib.invalidate_caches()
    return directory


def _forget(package: str, which: Callable[[ModuleType | None], bool]) -> None:
    if package not in sys.modules:
        return  # without a look at each module, which a fork would get a copy of
    for name, module in [*sys.modules.items()]:
        if (name == package or name.startswith(f"{package}.")) and which(module):
            del sys.modules[name]


def _from_bytecode(module: ModuleType | None) -> bool:
    """Whether Python's own loader imported it before, perhaps from stale bytecode."""
    return type(getattr(module, "__loader__", None)) is SourceFileLoader


def _modules(package: str, directory: Path, paths: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Dotted name and path of every module, packages before their modules."""
    start = len(str(directory)) + 1
    for path in paths:
        parts = path[start:].removesuffix(".py").split("/")
        if not path.endswith(".py") or "__main__" in parts:
            continue
        if parts[-1] == "__init__":
            parts.pop()
        yield ".".join((package, *parts)), Path(path)


def _classes_of(module: ModuleType) -> list[type]:
    """The classes that the module itself defines, not those it imports."""
    values = [value for value in vars(module).values() if isinstance(value, type)]
    return [value for value in dict.fromkeys(values) if value.__module__ == module.__name__]


def _file(spider: type) -> Path:
    own = vars(spider).get("__file__")
    module = getattr(sys.modules.get(spider.__module__), "__file__", None)
    return Path(own or module or spider.__module__)


def _place(spider: type, path: Path | None = None) -> str:
    """File and line of a class, even if the source does not show it plainly."""
    path = path or _file(spider)
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    start = re.compile(rf"\s*class\s+{re.escape(spider.__name__)}\b")
    return f"{path}:{next((n for n, line in enumerate(lines, 1) if start.match(line)), 1)}"
