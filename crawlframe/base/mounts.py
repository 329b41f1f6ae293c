"""Mounts: the file systems that paths are on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

NETWORK_FILESYSTEMS = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|afpfs|webdav|ceph|lustre|glusterfs|beegfs|gpfs|ncpfs"
    r"|fuse\.(sshfs|glusterfs|ceph\S*|rclone|s3fs|davfs\S*|smbnetfs)"
)


def network_filesystem(path: Path, mounts: str | None = None) -> str:
    """The kind of network file system that ``path`` is on; "" if it is local or unknown."""
    listing = _mounts() if mounts is None else mounts
    parents = {str(parent) for parent in (path.resolve(), *path.resolve().parents)}
    nearest = kind = ""
    for line in listing.splitlines():
        fields = line.split()
        # Of two mounts on one point, the later one hides the earlier.
        if len(fields) > 2 and _unescape(fields[1]) in parents and len(fields[1]) >= len(nearest):
            nearest, kind = fields[1:3]
    return kind if NETWORK_FILESYSTEMS.fullmatch(kind) else ""


def _mounts() -> str:
    """Lines of ``device point kind …``, as Linux writes them."""
    try:
        return Path("/proc/self/mounts").read_text()
    except OSError:
        pass
    if sys.platform != "darwin":
        return ""
    listing = subprocess.run(["mount"], capture_output=True, text=True).stdout
    return re.sub(r"^(\S+) on (.+) \((\w+).*$", r"\1 \2 \3", listing, flags=re.MULTILINE)


def _unescape(point: str) -> str:
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), point)
