"""Watcher: Django's autoreload machinery, notified by the kernel (watchfiles) or by polling.

It runs in a thread of the supervisor. Changes are sent as Django's signal ``file_changed``."""

from __future__ import annotations

import logging
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import watchfiles
from django.utils.autoreload import BaseReloader, autoreload_started, file_changed

from crawlframe.code.source import INSTALLED
from crawlframe.code.version import files, is_code
from crawlframe.node.supervisor.mailbox import FileChanged, Mailbox

log = logging.getLogger(__name__)

STEP_MS = 20  # milliseconds; events within that time are reported together
POLL_MS = 200  # milliseconds between two checks of single files, and of trees that are polled
SCAN_EVERY = 2.0  # seconds between two scans of whole trees: the kernel does not report links
SCAN_SHARE = 50  # a scan of whole trees may take 1/SCAN_SHARE of the time between two

Signature = tuple[int, int, int, int, int]


class TreeReloader(BaseReloader):
    """Watches trees (all files below) and single files. Never restarts anything by itself."""

    def __init__(self, trees: Iterable[Path], singles: Iterable[Path], *, polling: bool) -> None:
        super().__init__()
        self.polling = polling
        self._ended = threading.Event()
        for tree in trees:
            self.watch_dir(tree, "**/*")
        self.extra_files.update(singles)
        self._seen: dict[Path, Signature | None] = {}
        self._next_scan = 0.0

    def watch_also(self, paths: Iterable[Path]) -> None:
        """Adds further files and directories; may be called from another thread."""
        paths = set(paths)
        trees = {path for path in paths if path.is_dir()}
        self.extra_files = self.extra_files | (paths - trees)
        self.directory_globs = self.directory_globs | {tree: {"**/*"} for tree in trees}

    def begin(self) -> None:
        """From now on, every difference counts as a change."""
        self._scan(whole=True)

    def run_loop(self) -> None:
        autoreload_started.send(sender=self)
        super().run_loop()

    def tick(self) -> Iterator[None]:
        while True:
            trees = [tree for tree in self.directory_globs if tree.is_dir()]
            if self.polling or not trees:
                time.sleep(POLL_MS / 1000)
                self._notify(self._scan(whole=True))
                yield
                continue
            try:
                yield from self._kernel_events(trees)
            except (OSError, RuntimeError, ValueError) as error:  # the last: strange file names
                log.warning("the kernel does not report changes (%s); polling instead", error)
                self.polling = True

    def _kernel_events(self, trees: list[Path]) -> Iterator[None]:
        """Ends when a tree becomes a different directory."""
        for changes in watchfiles.watch(
            *trees,
            watch_filter=None,
            debounce=400,
            step=STEP_MS,
            rust_timeout=POLL_MS,
            yield_on_timeout=True,
            stop_event=self._ended,
            raise_interrupt=False,
        ):
            told = {Path(path) for _, path in changes}
            told = {path for path in told if self._is_code(path)}
            looked = self._scan(whole=False)
            self._seen.update((path, signature(path)) for path in told if path in self._seen)
            self._notify(told | looked)
            yield
            if not looked.isdisjoint(self.directory_globs):
                return
            if trees != [tree for tree in self.directory_globs if tree.is_dir()]:
                return

    def _is_code(self, path: Path) -> bool:
        for tree in self.directory_globs:
            for root in (tree, tree.resolve()):
                if path.is_relative_to(root):
                    return is_code(path.relative_to(root))
        return True

    def _scan(self, *, whole: bool) -> set[Path]:
        """The single files, and now and then the whole trees, that differ from the last scan."""
        started = time.monotonic()
        looked: dict[Path, Signature | None] = {}
        for path in (*self.extra_files, *self.directory_globs):
            looked[path] = signature(path)
        whole = whole or started >= self._next_scan
        if whole:
            for tree in self.directory_globs:
                looked.update((path, signature(path)) for path in files(tree))
            took = time.monotonic() - started
            self._next_scan = time.monotonic() + max(SCAN_EVERY, SCAN_SHARE * took)
        first = not self._seen
        changed = {path for path, mark in looked.items() if self._seen.get(path, ...) != mark}
        if whole:
            changed |= self._seen.keys() - looked.keys()
            self._seen = looked
        else:
            self._seen.update(looked)
        return set() if first else changed

    def _notify(self, paths: Iterable[Path]) -> None:
        for path in sorted(paths):
            self.notify_file_changed(path)

    @classmethod
    def check_availability(cls) -> None:
        """Does nothing: watchfiles is always installed."""


def signature(path: Path) -> Signature | None:
    """A value that differs for a changed file, even one of the same size, with an old time or
    behind another link; None when there is no file. For a directory it identifies which one it
    is."""
    try:
        found = path.stat()
    except OSError:
        return None
    if path.name in INSTALLED:
        names = sorted(entry.name for entry in path.iterdir() if entry.name[0] not in "~_")
        return found.st_dev, found.st_ino, hash(tuple(names)), 0, 0
    if stat.S_ISDIR(found.st_mode):
        return found.st_dev, found.st_ino, 0, 0, 0
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class WatcherThread(threading.Thread):
    """Runs a reloader; puts a FileChanged for each change into a mailbox."""

    def __init__(self, reloader: TreeReloader, mailbox: Mailbox) -> None:
        super().__init__(name="watch", daemon=True)
        self.reloader = reloader
        self._mailbox = mailbox
        file_changed.connect(self._on_change, sender=reloader, weak=False)

    def _on_change(self, file_path: Path, **kwargs: Any) -> bool:
        self._mailbox.put(FileChanged(time.monotonic(), file_path))
        return True  # otherwise Django would end this process

    def run(self) -> None:
        try:
            self.reloader.run_loop()
        except BaseException:
            log.exception("watching failed; changes are not seen any more, restart the node")
