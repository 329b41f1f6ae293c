"""Opens the file store that the settings name."""

from __future__ import annotations

from pathlib import Path

from crawlframe.base.storage_url import in_s3
from crawlframe.conf import Settings
from crawlframe.files.store import DirectoryStore, FileStore, spool_of

FOLDER = "files"  # below var_dir


def open_store(settings: Settings) -> FileStore:
    """The store of an installation. Connects to nothing yet."""
    local = settings.var_dir / FOLDER
    if in_s3(settings.files):
        # Imported here: few installations need it.
        from crawlframe.files.s3_client import S3Store

        return S3Store(settings.files, spool_of(local, settings.node))
    return DirectoryStore(Path(settings.files) if settings.files else local, settings.node)
