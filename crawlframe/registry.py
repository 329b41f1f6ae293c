"""Registry: imports every module of the spiders package; knows spiders and broken modules.

Whoever runs or checks spiders loads one; the service itself never imports spiders."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from crawlframe.errors import SpiderError, UnknownSpider, did_you_mean
from crawlframe.spider import Spider, SpiderInfo, describe

SPIDER_NAME = re.compile(r"[\w.-]{1,100}")
_OUR_FRAMES = ("<frozen importlib", __file__, importlib.__file__)


class Registry:
    """The spiders of one package.

    ``spiders``: name -> class. ``infos``: what is published of them, by name. ``broken``: module ->
    what is wrong with it; the first line names file, line and error, a traceback may follow."""

    def __init__(self) -> None:
        self.spiders: dict[str, type[Spider]] = {}
        self.infos: list[SpiderInfo] = []
        self.broken: dict[str, str] = {}

    @classmethod
    def load(cls, package: Path | str = "spiders") -> Registry:
        """Imports all modules of a package, given by name or by its directory. Never raises on
        what a module does; only KeyboardInterrupt passes."""
        registry = cls()
        name = package.resolve().name if isinstance(package, Path) else package
        directory = _enter(package) if isinstance(package, Path) else find_package(package)
        if directory is None or not directory.is_dir():
            place = directory or f"package {name!r}"
            registry._break(name, f"{place}: there is no such directory; make it, or start in the "
                                  "directory that holds it")  # fmt: skip
            return registry
        found: dict[str, list[type[Spider]]] = defaultdict(list)
        for module_name, path in _modules(name, directory):
            module = registry._import(module_name, path)
            if module is not None:
                for spider in _spiders_of(module):
                    registry._take(spider, path, found)
        registry._settle(found)
        return registry

    def get(self, name: str) -> type[Spider]:
        """The spider of this name. Raises UnknownSpider, which lists the known ones."""
        spider = self.spiders.get(name)
        if spider is None:
            raise unknown_spider(name, self.spiders, self.broken)
        return spider

    def info(self, name: str) -> SpiderInfo:
        """What is published of a spider. Raises UnknownSpider."""
        self.get(name)
        return next(info for info in self.infos if info.name == name)

    def _import(self, name: str, path: Path) -> ModuleType | None:
        if not all(part.isidentifier() for part in name.split(".")):
            self._break(name, f"{path}:1: a module's name may have only letters, digits and _")
            return None
        try:
            return importlib.import_module(name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module may raise anything, sys.exit() included
            self._break(name, _describe_failure(error, path))
            return None

    def _take(self, spider: type[Spider], path: Path, found: dict[str, list[type[Spider]]]) -> None:
        name: object = spider.name
        if not isinstance(name, str) or not SPIDER_NAME.fullmatch(name):
            problem = f"name {name!r} must be up to 100 letters, digits and . _ -"
            self._break(spider.__module__, f"{_place(spider, path)}: {spider.__name__}: {problem}")
            return
        found[name].append(spider)

    def _settle(self, found: dict[str, list[type[Spider]]]) -> None:
        for name, spiders in sorted(found.items()):
            if len(spiders) > 1:
                places = [f"{spider.__module__}.{spider.__name__}" for spider in spiders]
                text = f"the spider name {name!r} is used by {' and '.join(places)}; change one"
                for module in {spider.__module__: None for spider in spiders}:
                    first = next(spider for spider in spiders if spider.__module__ == module)
                    self._break(module, f"{_place(first)}: {text}")
                continue
            try:
                info = describe(spiders[0])
            except SpiderError as error:
                self._break(spiders[0].__module__, f"{_place(spiders[0])}: {error}")
            except Exception as error:  # metaclasses and annotations of authors run here
                self._break(spiders[0].__module__, _describe_failure(error, _file(spiders[0])))
            else:
                self.spiders[name] = spiders[0]
                self.infos.append(info)

    def _break(self, module: str, text: str) -> None:
        before = self.broken.get(module)
        self.broken[module] = f"{before}\n{text}" if before else text


def unknown_spider(
    name: str, known: dict[str, type[Spider]] | dict[str, SpiderInfo], broken: dict[str, str]
) -> UnknownSpider:
    """The error for a name that is not among ``known``, naming those and the nearest."""
    text = f"there is no spider {name!r}{did_you_mean(name, known)}. "
    text += f"Known: {', '.join(sorted(known))}" if known else "None is known"
    if not broken:
        text += "; python manage.py checkspiders says what does not load"
    for first_line in (problem.partition("\n")[0] for problem in broken.values()):
        text += f"\nNot loaded: {first_line}"
    return UnknownSpider(text)


def _enter(directory: Path) -> Path:
    """Makes ``directory`` importable under its name, before any other package of that name."""
    directory = directory.resolve()
    loaded = sys.modules.get(directory.name)
    # Read before sys.path changes: a namespace package's path follows it.
    if loaded is not None and next(iter(getattr(loaded, "__path__", [])), "") != str(directory):
        for name in [*sys.modules]:
            if name == directory.name or name.startswith(f"{directory.name}."):
                del sys.modules[name]
    parent = str(directory.parent)
    sys.path[:] = [parent, *(place for place in sys.path if place != parent)]
    importlib.invalidate_caches()
    return directory


def find_package(package: str) -> Path | None:
    """The directory of a package, which is not imported for that; None when there is none."""
    importlib.invalidate_caches()
    try:
        spec = importlib.util.find_spec(package)
    except Exception:  # the parent of a dotted name is imported, and may raise anything
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _modules(package: str, directory: Path) -> Iterator[tuple[str, Path]]:
    """Dotted name and path of every module, packages before what they hold."""
    for path in sorted(directory.rglob("*.py")):
        parts = path.relative_to(directory).with_suffix("").parts
        if any(part.startswith(".") or part in ("__pycache__", "__main__") for part in parts):
            continue
        if parts[-1] == "__init__":
            parts = parts[:-1]
        yield ".".join((package, *parts)), path


def _spiders_of(module: ModuleType) -> list[type[Spider]]:
    """Named spiders that the module defines; what it only imports belongs elsewhere."""
    values = [value for value in vars(module).values() if isinstance(value, type)]
    return [
        value
        for value in dict.fromkeys(values)
        if issubclass(value, Spider) and value.__module__ == module.__name__ and value.name
    ]


def _describe_failure(error: BaseException, path: Path) -> str:
    report = traceback.TracebackException.from_exception(error)
    links: list[traceback.TracebackException | None] = [report]
    while links:
        link = links.pop()
        if link is not None:
            kept = [frame for frame in link.stack if not frame.filename.startswith(_OUR_FRAMES)]
            link.stack = traceback.StackSummary.from_list(kept)
            links += [link.__cause__, link.__context__]
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno or 1}"
    else:
        # The innermost line of the author's own files says more than one deep in a library.
        stack = report.stack
        mine = [frame for frame in stack if Path(frame.filename).parent == path.parent] or [*stack]
        place = f"{mine[-1].filename}:{mine[-1].lineno}" if mine else f"{path}:1"
    text = "".join(report.format()).rstrip()
    if not report.stack:
        text = text.removeprefix("Traceback (most recent call last):\n")
    return f"{place}: {_one_line(error)}\n{text}"


def _one_line(error: BaseException) -> str:
    words = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {words.strip().partition(chr(10))[0]}".removesuffix(": ")


def _file(spider: type[Spider]) -> Path:
    return Path(getattr(sys.modules.get(spider.__module__), "__file__", None) or spider.__module__)


def _place(spider: type[Spider], path: Path | None = None) -> str:
    """File and line of a class, also of one that the source does not show plainly."""
    path = path or _file(spider)
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    start = re.compile(rf"\s*class\s+{re.escape(spider.__name__)}\b")
    return f"{path}:{next((n for n, line in enumerate(lines, 1) if start.match(line)), 1)}"
