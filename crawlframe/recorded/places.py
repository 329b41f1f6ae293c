"""Places: where the recordings of a project are, and which spider each of them is for."""

from __future__ import annotations

from pathlib import Path

from crawlframe.code.registry import Registry, find_package
from crawlframe.conf import Settings
from crawlframe.load_spiders import load_spiders


def recordings_of(settings: Settings) -> Path:
    """Returns the directory of the recordings; it need not exist. ``settings.recorded`` is relative
    to the directory that holds the package of the spiders."""
    if settings.recorded.is_absolute():
        return settings.recorded
    return project_of(settings) / settings.recorded


def project_of(settings: Settings) -> Path:
    """Returns the directory that holds the package of the spiders."""
    if settings.scrapy:
        return Path(settings.scrapy).resolve()
    directory = find_package(settings.spiders)
    if directory is None:
        return Path.cwd()
    return directory.resolve().parents[settings.spiders.count(".")]


def load_kept(settings: Settings) -> Registry:
    """Returns all spiders. Modules that were imported before stay as they are, so that tests and
    recordings share them."""
    return load_spiders(settings, keep=True)
