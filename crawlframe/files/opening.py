"""Opens the file store that the settings name."""

from __future__ import annotations

from pathlib import Path

from crawlframe.conf import Settings
from crawlframe.files.store import DirectoryStore, FileStore

FOLDER = "files"  # below var_dir


def open_store(settings: Settings) -> FileStore:
    """The store of an installation. Connects to nothing yet."""
    directory = Path(settings.files) if settings.files else settings.var_dir / FOLDER
    return DirectoryStore(directory, settings.node)
