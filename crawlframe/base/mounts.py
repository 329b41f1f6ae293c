"""Mounts: the file systems that paths are on."""

from __future__ import annotations

import re
from pathlib import Path

import psutil

NETWORK_FILESYSTEMS = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|afpfs|webdav|ceph|lustre|glusterfs|beegfs|gpfs|ncpfs"
    r"|fuse\.(sshfs|glusterfs|ceph\S*|rclone|s3fs|davfs\S*|smbnetfs)"
)


def network_filesystem(path: Path) -> str:
    """The kind of network file system that ``path`` is on; "" if it is local or unknown."""
    parents = {str(parent) for parent in (path.resolve(), *path.resolve().parents)}
    nearest = kind = ""
    for one in psutil.disk_partitions(all=True):
        # Of two mounts on one point, the later one hides the earlier.
        if one.mountpoint in parents and len(one.mountpoint) >= len(nearest):
            nearest, kind = one.mountpoint, one.fstype
    return kind if NETWORK_FILESYSTEMS.fullmatch(kind) else ""
