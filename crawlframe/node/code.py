"""Code: where the code of a node is, and which version of it is on disk."""

from __future__ import annotations

import csv
import site
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from crawlframe.code.checkout import Checkout
from crawlframe.code.source import INSTALLED, OURS
from crawlframe.code.version import Contents, Snapshot, Stamp, stamps

REQUIREMENTS = (
    "requirements*.txt",
    "requirements*.lock",
    "pyproject.toml",
    "uv.lock",
    "poetry.lock",
)


class Code:
    """``spiders`` is the tree of the spiders, which is hot reloaded. The framework is everything
    that this process has loaded from outside Python and its installed packages, Crawlframe itself
    wherever it is installed, and ``start`` (manage.py) with the requirements next to it: when that
    changes, the whole node is handed over."""

    def __init__(self, spiders: Path, start: Path) -> None:
        self.spiders = spiders.absolute()
        self._checkout: tuple[Path, Checkout | None] | None = None
        self.packages = _installed()
        self._installation = Installation(Path(__file__).absolute().parents[2], "crawlframe")
        self.engine, modules = self._loaded()
        beside = [path for pattern in REQUIREMENTS for path in start.parent.glob(pattern)]
        self._single_modules = sorted({*modules, *([start] if start.is_file() else [])})
        self.marks = frozenset(self.checkout.marks if self.checkout else ())
        self._requirements = beside
        self._contents = Contents()
        self._last: tuple[dict[str, Stamp], str] = ({}, "")
        self._digest = self.engine_digest()  # of the framework that is running

    @property
    def installed(self) -> bool:
        """Whether the framework was installed as a package, not run from a checkout."""
        return self._installation.known

    @property
    def engine_paths(self) -> list[str]:
        """The trees and single modules of the framework."""
        return [*map(str, (*self.engine, *self._single_modules))]

    def extend(self, paths: Iterable[Path]) -> list[Path]:
        """Adds files of the framework that another process has loaded. Returns the new ones."""
        known = {*self.engine, *self._single_modules}
        more = [path for path in paths if known.isdisjoint((path, *path.parents))]
        trees = {path for path in more if path.is_dir()}
        self.engine = sorted({*self.engine, *trees})
        self._single_modules = sorted({*self._single_modules, *more} - trees)
        return more

    @property
    def trees(self) -> list[Path]:
        """The directories that are watched, with everything below them."""
        return [self.spiders, *self.engine]

    @property
    def singles(self) -> list[Path]:
        """The single files that are watched."""
        return [*self._single_modules, *self._requirements, *self.marks]

    @property
    def checkout(self) -> Checkout | None:
        """The checkout of the spiders; it changes when a link on the path to them is swapped."""
        real = self.spiders.resolve()
        if self._checkout is None or self._checkout[0] != real or self._checkout[1] is None:
            self._checkout = (real, Checkout.around(real) if real.is_dir() else None)
        return self._checkout[1]

    def _engine_in_checkout(self) -> list[Path]:
        """The parts of the framework that are covered by a revision of the spiders' checkout.
        Installed packages are not, though a virtual environment may be inside the checkout."""
        if self.checkout is None:
            return []
        root = self.checkout.root.resolve()
        paths = [*self.engine, *self._single_modules]
        paths = [path for path in paths if not any(map(path.is_relative_to, self.packages))]
        return [path for path in paths if path.resolve().is_relative_to(root)]

    @property
    def busy(self) -> str:
        """The program that is changing files now, git or an installer, with the fix if it is not
        running; "" if there is none."""
        if self.checkout is not None and self.checkout.busy:
            return f"git; if none runs, remove {self.checkout.lock}"
        missing = self._installation.missing() if self.installed else ""
        return (
            missing and f"the installation of Crawlframe, which lacks {missing}; install it again"
        )

    def engine_digest(self) -> str:
        """The digest of the framework on disk."""
        found = _stamps([*self.engine, *self._single_modules, *self._requirements])
        if self._last[0] != found or not found:
            self._last = (found, self._contents.digest(found, self.spiders.parent))
        return self._last[1]

    def identity(self, extra: Iterable[Path] = ()) -> tuple[str, str]:
        """The digest of the spiders with the further files that belong to them, and the
        revision."""
        revision = self.checkout.revision() if self.checkout else ""
        return self._spiders_digest(extra), revision

    def version_on_disk(self) -> str:
        """The label of all the code on disk, whichever framework is running."""
        engine = self._engine_in_checkout()
        return self._take((), engine).version

    def snapshot(self, extra: Iterable[Path] = ()) -> Snapshot:
        """The spiders' code on disk, as it will run in this process's framework: when that is not
        the framework on disk, the revision alone does not identify it."""
        extra = list(extra)
        engine = self._engine_in_checkout()
        taken = self._take(extra, engine)
        if "+" not in taken.version and self.engine_digest() != self._digest:
            taken = taken._replace(version=f"{taken.version}+{self._digest}")
        return taken._replace(digest=self._spiders_digest(extra)) if extra else taken

    def _take(self, extra: Iterable[Path], engine: Iterable[Path]) -> Snapshot:
        return Snapshot.take(self.spiders, extra, engine, self.checkout, self._contents)

    def _spiders_digest(self, extra: Iterable[Path]) -> str:
        return self._contents.digest(_stamps([self.spiders, *extra]), self.spiders)

    def _loaded(self) -> tuple[list[Path], list[Path]]:
        """Top directories and single modules of all that is loaded but not installed, and our
        own."""
        apart = [*self.packages, *_python()]
        trees: set[Path] = set()
        singles: set[Path] = set()
        paths: set[Path] = set()
        for name, module in [*sys.modules.items()]:
            file = getattr(module, "__file__", None)
            if not file or name == "__main__" or not file.endswith(".py"):
                continue
            path = Path(file).absolute()
            installed = any(map(path.is_relative_to, apart)) and name.split(".")[0] not in OURS
            if path.is_relative_to(self.spiders) or installed:
                continue
            paths.add(path)
            depth = name.count(".") + (path.name == "__init__.py")
            if depth:
                trees.add(path.parents[depth - 1])
            else:
                singles.add(path)
        trees = {tree for tree in trees if not any(other in tree.parents for other in trees)}
        # The spiders may be inside such a package; its loaded modules belong to the framework.
        holding = {tree for tree in trees if self.spiders.is_relative_to(tree)}
        trees -= holding
        singles |= {path for path in paths if any(map(path.is_relative_to, holding))}
        return sorted(trees), sorted(singles)


def _installed() -> list[Path]:
    places = [*site.getsitepackages(), site.getusersitepackages(), *sys.path]
    found = (Path(place) for place in places if place)
    return sorted({path for path in found if path.name in INSTALLED and path.is_dir()})


def _python() -> list[Path]:
    paths = sysconfig.get_paths()
    return [Path(paths[name]) for name in ("stdlib", "platstdlib")]


def _stamps(trees: Iterable[Path]) -> dict[str, Stamp]:
    return {path: stamp for tree in trees for path, stamp in stamps(tree).items()}


class Installation:
    """A distribution in ``folder``, a directory of installed packages, by its name. ``known``: it
    was complete when this object was made; one that was not, or that is not installed there (a
    checkout), is never waited for."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self.known = not self.missing()

    def missing(self) -> str:
        """The first file that RECORD lists and that is absent or has another size; the directory
        of the metadata if there is not exactly one; "" if the installation is complete."""
        pattern = f"{self._name}-*.dist-info"
        found = [*self._folder.glob(pattern)]
        if len(found) != 1:
            return str(self._folder / pattern)
        record = found[0] / "RECORD"
        try:
            lines = record.read_text("utf-8").splitlines()
        except OSError:
            return str(record)
        # Not importlib.metadata, which leaves absent files out from Python 3.12 on.
        for name, *told in filter(None, csv.reader(lines)):
            path = self._folder / name
            # Bytecode may be deleted and written again; scripts are rewritten for the interpreter.
            if path.suffix == ".pyc" or ".." in path.parts:
                continue
            try:
                size = path.stat().st_size
            except OSError:
                return str(path)
            if told[1:] not in ([], [""], [str(size)]):
                return str(path)
        return ""
