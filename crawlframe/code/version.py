"""Version: which code lies on the disk, as a short label, and whether it stood still."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from crawlframe.code.checkout import SHORT, Checkout, GitError

# What editors and Python leave behind is no code; 4913 is how vim tries a directory.
NO_CODE = re.compile(r"\..*|__pycache__|.*\.pyc|.*~|\#.*\#|4913|.*___jb_(tmp|old)___", re.DOTALL)
MARK = 16  # bytes of a file's digest
GONE = b"gone"  # in place of a file's digest
BLOCK = 1 << 20  # bytes read at a time
TRIES = 5  # looks at a checkout whose HEAD moves


def is_code(path: Path) -> bool:
    """May a file of this path, relative to the tree it belongs to, be part of the code? Hidden
    ones, __pycache__ and editor leftovers are not."""
    return not any(map(NO_CODE.fullmatch, path.parts))


def files(tree: Path) -> Iterator[Path]:
    """All files below a tree that are code or belong to it, sorted; a tree may be one file.

    Symbolic links are followed, but not into a directory that they lie in. What disappears or
    cannot be read meanwhile is left out; devices, pipes and sockets are too."""
    if tree.is_file():
        return iter([tree])
    return map(Path, sorted(_below(os.fspath(tree), _places_above(tree), []), key=_by_parts))


def content(path: Path) -> bytes:
    """The digest of one file; GONE when it cannot be read."""
    found = blake2b(digest_size=MARK)
    try:
        with path.open("rb", buffering=0) as file:
            while block := file.read(BLOCK):
                found.update(block)
    except OSError:
        return GONE
    return found.digest()


def digest(paths: Iterable[Path], base: Path, read: Callable[[Path], bytes] = content) -> str:
    """12 hex digits over names, as seen from the directory ``base``, and contents. A file that is
    gone by now counts as such."""
    found = blake2b(digest_size=SHORT // 2)
    start = f"{base.absolute()}/"
    for path in dict.fromkeys(paths):
        name = os.fspath(path)
        inside = name.startswith(start) and ".." not in path.parts
        name = name[len(start) :] if inside else os.path.relpath(name, start)
        mark = read(path)
        found.update(b"%s\0%d\0%s" % (os.fsencode(name), len(mark), mark))
    return found.hexdigest()


def code_version(tree: Path, extra: Iterable[Path] = (), engine: Iterable[Path] = ()) -> str:
    """The label of the code on the disk, at most 25 characters: the git revision (12 digits) when
    ``tree``, ``extra`` (files or trees) and ``engine`` (the framework's trees) are as it has them,
    else ``<revision>+<digest>``; ``+<digest>`` without git.

    What git ignores, and what links lead to outside the checkout, a revision does not tell: it
    brings the digest too. Never raises; git that fails counts as none."""
    return Snapshot.take(tree, extra, engine).version


class Snapshot(NamedTuple):
    """The code on the disk. Its ``digest`` was taken first: when that, and the revision, are the
    same after the import, the version is that of what was imported. What changed to and fro, only
    the modules themselves can tell: see SourceFinder.changed."""

    version: str
    digest: str  # of the tree, names and contents
    revision: str  # 40 hex digits; "" without git
    busy: bool  # git changes files, or died while it did

    @classmethod
    def take(
        cls,
        tree: Path,
        extra: Iterable[Path] = (),
        engine: Iterable[Path] = (),
        checkout: Checkout | None = None,
    ) -> Snapshot:
        """Reads all of it. ``version`` is as code_version says it; never raises. ``checkout`` is
        that of the tree, if it is known already."""
        trees = [path.absolute() for path in (tree, *extra, *engine)]
        for _ in range(TRIES):
            read = cache(content)
            own = digest(files(trees[0]), trees[0], read)
            if checkout is None and trees[0].is_dir():
                checkout = Checkout.around(trees[0])
            busy = checkout is not None and checkout.busy
            revision = checkout.revision() if checkout else ""
            root = checkout.root if checkout else trees[0].parent
            label = revision[:SHORT]
            if not checkout or not label or _differs(checkout, trees):
                every = (path for tree in trees for path in files(tree))
                label += f"+{digest(every, root, read)}"
            if not checkout or checkout.revision() == revision:
                return cls(label, own, revision, busy or (checkout is not None and checkout.busy))
        return cls(label, own, revision, busy=True)  # HEAD does not stand still


def _differs(checkout: Checkout, trees: list[Path]) -> bool:
    """Is there something in these trees that is not what the revision has?"""
    asked: set[Path] = set()
    for tree in trees:
        links: list[str] = []
        if tree.is_dir():
            for _ in _below(os.fspath(tree), _places_above(tree), links):
                pass
        asked.update((tree.resolve(), *(Path(link).resolve() for link in links)))
    root = checkout.root.resolve()
    if not all(path.is_relative_to(root) for path in asked):
        return True
    try:
        words = [
            *("--porcelain", "-z", "--untracked-files=all", "--ignored=matching"),
            *("--no-renames", "--ignore-submodules=none"),
        ]
        # A literal "." would fit nothing.
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


def _below(directory: str, above: frozenset[tuple[int, int]], links: list[str]) -> Iterator[str]:
    """Paths of files; the links among them, and those to directories, are added to ``links``."""
    try:
        with os.scandir(directory) as found:
            entries = [entry for entry in found if not NO_CODE.fullmatch(entry.name)]
    except OSError:
        return
    for entry in entries:
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
            yield entry.path


def _places_above(tree: Path) -> frozenset[tuple[int, int]]:
    """The tree itself and the directories that it lies in."""
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


def _by_parts(path: str) -> list[str]:
    return path.split("/")
