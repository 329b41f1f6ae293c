"""Finishes the segments that dead writers have left open."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from crawlframe.warc.gzip_members import members, next_member
from crawlframe.warc.segment_files import (
    OPEN,
    finish,
    is_at,
    is_segment,
    lock,
    named_errors,
    node_of,
)

WARC = b"WARC/1.1\r\n"

log = logging.getLogger(__name__)


def recover(directory: Path, node: str | None = None) -> list[str]:
    """Cuts what follows the last complete record of each open segment that nobody writes, and gives
    the segment its final name. Damage that complete records follow is left, since what was synced
    may be behind it. ``node``: only segments of this node. Returns the names. Reads each of them
    from its beginning. Raises ArchiveError."""
    with named_errors(directory):
        if not directory.is_dir():
            return []
        found = []
        for path in sorted(directory.glob(f"*{OPEN}")):
            name = path.name.removesuffix(OPEN)
            if is_segment(name) and node in (None, node_of(name)) and _recover(path):
                found.append(name)
        return found


def _recover(path: Path) -> bool:
    """Whether there is a finished segment now."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:  # its writer has finished it
        return False
    with file:
        if not lock(file.fileno()) or not is_at(path, file.fileno()):
            return False
        end = records = 0
        for member in members(file, keep=False):
            end = member.offset + member.length
            records += 1
        size = os.fstat(file.fileno()).st_size
        if end < size and (later := next_member(file, end, WARC)) >= 0:
            # Not what a writer leaves that dies: the disk has lost something in between.
            log.error("%s: the bytes %d to %d are damaged, and are left", path, end, later)
        elif records <= 1:  # the warcinfo, at most
            path.unlink()
            return False
        elif end < size:
            log.warning("%s: %d bytes after its last complete record are cut", path, size - end)
            os.ftruncate(file.fileno(), end)
        finish(path, file.fileno())
    return True
