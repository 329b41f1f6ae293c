"""Version: a short label for the code on disk, and whether it was being changed."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeVar

from crawlframe.code.checkout import DIGITS, Checkout, GitError

# Files of editors and of Python are not code; 4913 is how vim tests a directory.
NO_CODE = re.compile(r"\..*|__pycache__|.*\.pyc|.*~|\#.*\#|4913|.*___jb_(tmp|old)___", re.DOTALL)
MARK = 16  # bytes of a file's digest
GONE = b"gone"  # in place of a file's digest
BLOCK = 1 << 20  # bytes read at a time
CLOCK_LAG = 20_000_000  # nanoseconds that a file's time may lag behind the clock
TRIES = 5  # attempts on a checkout whose HEAD moves

Stamp = tuple[int, int, int, int]  # inode, bytes, times of the last write and of the last change
_Path = TypeVar("_Path", str, Path)


def is_code(path: Path) -> bool:
    """Whether a file of this path, relative to its tree, may be part of the code. Hidden files,
    __pycache__ and editor leftovers are not."""
    return not any(map(NO_CODE.fullmatch, path.parts))


def files(tree: Path) -> Iterator[Path]:
    """All files below a tree that belong to the code, sorted; a tree may be a single file.

    Symbolic links are followed, except into a directory that contains them. Files that disappear
    or cannot be read are left out, as are devices, pipes and sockets."""
    return map(Path, stamps(tree))


def stamps(tree: Path, links: list[str] | None = None) -> dict[str, Stamp]:
    """``files`` with their stamps, which differ once a file has been written. Links among the
    files, and links to directories, are added to ``links``."""
    links = [] if links is None else links
    if stamp := stamp_of(os.fspath(tree)):
        return {os.fspath(tree): stamp}
    return dict(_below(os.fspath(tree), _places_above(tree), links))


def stamp_of(file: str) -> Stamp | None:
    """The stamp of a regular file; None if there is none."""
    try:
        found = os.stat(file)  # noqa: PTH116  # a Path takes three times as long
    except OSError:
        return None
    return _stamp(found) if stat.S_ISREG(found.st_mode) else None


def written(trees: Iterable[Path], since: int) -> bool:
    """Whether any of these files has changed since then (time.time_ns()). Future times do not
    count: the clock was set back."""
    now = time.time_ns()
    for path in (path for tree in trees for path in files(tree)):
        with contextlib.suppress(OSError):
            if since <= path.stat().st_ctime_ns <= now:
                return True
    return False


def content(path: str | Path) -> bytes:
    """The digest of one file; GONE when it cannot be read."""
    found = blake2b(digest_size=MARK)
    try:
        with Path(path).open("rb", buffering=0) as file:
            while block := file.read(BLOCK):
                found.update(block)
    except OSError:
        return GONE
    return found.digest()


class Contents:
    """Digests of files, which are read again when their stamps have changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Stamp, bytes]] = {}

    def reader(self, stamps: Mapping[str, Stamp]) -> Callable[[str], bytes]:
        """Returns a function that returns the digest of one of these files."""

        def read(path: str) -> bytes:
            stamp = stamps[path]
            known = self._known.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            # Written just now, it may be written again without a later time.
            settled = stamp[-1] < time.time_ns() - CLOCK_LAG
            mark = content(path)
            if settled:
                self._known[path] = stamp, mark
            return mark

        return read

    def digest(self, stamps: Mapping[str, Stamp], base: Path) -> str:
        """``digest`` of these files."""
        return digest(stamps, base, self.reader(stamps))


def digest(paths: Iterable[_Path], base: Path, read: Callable[[_Path], bytes] = content) -> str:
    """12 hex digits over file names, relative to the directory ``base``, and contents. A file that
    has disappeared counts as gone."""
    found = blake2b(digest_size=DIGITS // 2)
    start = f"{base.absolute()}/"
    for path in dict.fromkeys(paths):
        name = os.fspath(path)
        inside = name.startswith(start) and "/../" not in name
        name = name[len(start) :] if inside else os.path.relpath(name, start)
        mark = read(path)
        found.update(b"%s\0%d\0%s" % (os.fsencode(name), len(mark), mark))
    return found.hexdigest()


def code_version(tree: Path, extra: Iterable[Path] = (), engine: Iterable[Path] = ()) -> str:
    """The label of the code on disk, at most 25 characters: the git revision (12 digits) when
    ``tree``, ``extra`` (files or trees) and ``engine`` (the framework's trees) match it, else
    ``<revision>+<digest>``; ``+<digest>`` without git.

    A revision does not cover ignored files, nor files behind links out of the checkout: such files
    add the digest too. Never raises; if git fails, there is no revision."""
    return Snapshot.take(tree, extra, engine).version


class Snapshot(NamedTuple):
    """The code on disk. Its ``digest`` was taken first: if it and the revision are the same after
    the import, the version is the imported one. A change that was undone in between is found only
    by SourceFinder.changed."""

    version: str
    digest: str  # of the names and contents in the tree
    revision: str  # 40 hex digits; "" without git
    busy: bool  # git is changing files, or died while it did

    @classmethod
    def take(
        cls,
        tree: Path,
        extra: Iterable[Path] = (),
        engine: Iterable[Path] = (),
        checkout: Checkout | None = None,
        contents: Contents | None = None,
    ) -> Snapshot:
        """Reads all of it. ``version`` is as in code_version; never raises. ``checkout`` of the
        tree and ``contents`` of its files, if the caller has them already."""
        trees = [path.absolute() for path in (tree, *extra, *engine)]
        contents = contents or Contents()
        for _ in range(TRIES):
            links: list[str] = []
            listed = [stamps(one, links) for one in trees]
            own = contents.digest(listed[0], trees[0])
            if checkout is None and trees[0].is_dir():
                checkout = Checkout.around(trees[0])
            busy = checkout is not None and checkout.busy
            revision = checkout.revision() if checkout else ""
            root = checkout.root if checkout else trees[0].parent
            label = revision[:DIGITS]
            if not checkout or not label or _differs(checkout, trees, links):
                every = {path: mark for one in listed for path, mark in one.items()}
                label += f"+{contents.digest(every, root)}"
            if not checkout or checkout.revision() == revision:
                return cls(label, own, revision, busy or (checkout is not None and checkout.busy))
        return cls(label, own, revision, busy=True)  # HEAD keeps moving


def _differs(checkout: Checkout, trees: list[Path], links: list[str]) -> bool:
    """Whether anything in these trees, or behind the links in them, differs from the revision."""
    asked = {path.resolve() for path in (*trees, *map(Path, links))}
    root = checkout.root.resolve()
    if not all(path.is_relative_to(root) for path in asked):
        return True
    try:
        words = [
            *("--porcelain", "-z", "--untracked-files=all", "--ignored=matching"),
            *("--no-renames", "--ignore-submodules=none"),
        ]
        # A literal "." would match nothing.
        tops = (path.relative_to(root) for path in asked)
        paths = [f":(top,literal){path}" if path != Path() else ":(top)" for path in tops]
        lines = checkout.git("status", *words, "--", *paths).split("\0")
    except GitError:
        return True
    changed = [root / line[3:] for line in lines if line]
    return any(
        path.is_relative_to(tree) and is_code(path.relative_to(tree))
        for path in changed
        for tree in asked
    )


def _below(
    directory: str, above: frozenset[tuple[int, int]], links: list[str]
) -> Iterator[tuple[str, Stamp]]:
    try:
        with os.scandir(directory) as found:
            entries = [entry for entry in found if not NO_CODE.fullmatch(entry.name)]
    except OSError:
        return
    for entry in sorted(entries, key=lambda entry: entry.name):
        try:
            inside = entry.is_dir()
            if not inside and not entry.is_file():
                continue
            place = entry.stat()
            mark = (place.st_dev, place.st_ino)
            if mark in above:
                continue
            if entry.is_symlink():
                links.append(entry.path)
        except OSError:
            continue
        if inside:
            yield from _below(entry.path, above | {mark}, links)
        else:
            yield entry.path, _stamp(place)


def _places_above(tree: Path) -> frozenset[tuple[int, int]]:
    """The tree itself and all its parent directories."""
    marks = set()
    real = tree.resolve()
    for directory in (real, *real.parents):
        try:
            place = directory.stat()
        except OSError:
            continue
        if stat.S_ISDIR(place.st_mode):
            marks.add((place.st_dev, place.st_ino))
    return frozenset(marks)


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
