"""The generated secret key of an installation that was given none, and the directory it is in."""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
import tempfile
from pathlib import Path

from crawlframe.errors import ConfigError

log = logging.getLogger(__name__)

# Files of a var directory: of this module, databaseurl, embedded, services and localnode.
OURS = re.compile(
    r"(\.?secret_key|crawlframe\.sqlite3|redis$|bytecode$|log$|lost\+found$|\.gitignore$|\.gitkeep$)"
)
SECRETS = ("secret_key", "crawlframe.sqlite3", "crawlframe.sqlite3-wal", "crawlframe.sqlite3-shm")


def secret_key(var_dir: Path) -> str:
    """The key in ``var_dir/secret_key``, made on first use. Raises ConfigError."""
    path = var_dir / "secret_key"
    try:
        if not path.exists():
            _create(path)
        key = path.read_text().strip()
    except OSError as error:
        raise ConfigError(
            f"the secret key cannot be kept in {path}: {error}; make {var_dir} writable for this "
            "user, name another directory in CRAWLFRAME_VAR_DIR, or set CRAWLFRAME_SECRET_KEY"
        ) from None
    if len(key) < 32:
        raise ConfigError(f"{path} holds no key; remove it, and a new one is made")
    return key


def private_directory(var_dir: Path) -> None:
    """Makes a var directory of ours, and the secrets in it, inaccessible to others, and logs that.
    A directory that all users may write to, such as /tmp, is left alone, and so is a directory that
    contains other things, such as a home directory: others may need it. Files that cannot be
    changed are left, too."""
    try:
        for name in SECRETS:
            _tighten(var_dir / name, 0o600)
        mode = var_dir.stat().st_mode
        if not mode & stat.S_ISVTX:
            _close(var_dir, others_enter=bool(mode & 0o077))
    except OSError:
        pass  # there is none yet; it is made with these modes


def _close(var_dir: Path, *, others_enter: bool) -> None:
    names = (path.name for path in var_dir.iterdir())
    if foreign := sorted(name for name in names if not OURS.match(name)):
        if others_enter:
            log.warning(
                "other users may enter %s, which CRAWLFRAME_VAR_DIR names; it is left open, "
                "because it contains other things too (%s). Name a directory of its own, or run: "
                "chmod 700 %s", var_dir, ", ".join(foreign[:3]), var_dir,
            )  # fmt: skip
    elif _tighten(var_dir, 0o700):
        log.warning("%s was closed to other users: its mode is 0700 now", var_dir)


def _tighten(path: Path, mode: int) -> bool:
    """Returns whether the mode was different."""
    if not path.exists():
        return False
    found = path.stat()
    if found.st_uid != os.geteuid() or not stat.S_IMODE(found.st_mode) & ~mode:
        return False
    path.chmod(stat.S_IMODE(found.st_mode) & mode)
    return True


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".secret_key-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(50))
        # A link appears whole or not at all, and never replaces the key of a faster process.
        os.link(name, path)
    except FileExistsError:
        pass
    finally:
        Path(name).unlink()
