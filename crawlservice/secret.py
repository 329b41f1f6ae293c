"""The secret key of an installation that was given none, and the directory that it is kept in."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from pathlib import Path

from crawlframe.errors import ConfigError

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
    """Takes the rights of others away from a var directory of ours, and from the secrets in it. One
    that everybody writes to, as /tmp, is left alone; what cannot be changed is, too."""
    try:
        if not var_dir.stat().st_mode & stat.S_ISVTX:
            _tighten(var_dir, 0o700)
        for name in SECRETS:
            _tighten(var_dir / name, 0o600)
    except OSError:
        pass  # there is none yet; it is made with these modes


def _tighten(path: Path, mode: int) -> None:
    if not path.exists():
        return
    found = path.stat()
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & ~mode:
        path.chmod(stat.S_IMODE(found.st_mode) & mode)


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
