"""ScrapyProject: the spiders of a directory with a scrapy.cfg, as a source of spiders."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from functools import partial
from os.path import normpath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scrapy.addons import AddonManager
from scrapy.settings import Settings
from scrapy.utils.spider import iter_spider_classes

from crawlframe.code.registry import Registry
from crawlframe.code.version import files
from crawlframe.errors import ConfigError
from crawlframe.scrapy import components
from crawlframe.scrapy.spider import PortedSpider, ported

CONFIG = "scrapy.cfg"
VARIABLE = "SCRAPY_SETTINGS_MODULE"


class ScrapyProject:
    """``root`` is the directory with the scrapy.cfg."""

    def __init__(self, root: Path) -> None:
        self.root = Path(normpath(root.absolute()))

    def files(self) -> list[Path]:
        """The watched files: the modules of the project, and its scrapy.cfg."""
        return [self.root / CONFIG, *self._packages()]

    def find(self, registry: Registry) -> Iterator[type[PortedSpider]]:
        """Yields a class of ours for each spider of the project."""
        config = self.root / CONFIG
        registry.own(self.root)
        sys.path[:] = [str(self.root), *(place for place in sys.path if place != str(self.root))]
        importlib.invalidate_caches()
        settings = registry.attempt(CONFIG, config, partial(self._settings, registry))
        if settings is None:
            return
        seen: set[type] = set()
        for name, path in self._modules(settings.getlist("SPIDER_MODULES"), registry):
            module = registry.attempt(name, path, partial(importlib.import_module, name))
            if module is None:
                continue
            for kind in iter_spider_classes(module):
                if kind not in seen:
                    seen.add(kind)
                    made = registry.attempt(name, path, partial(ported, kind, settings))
                    if made is not None:
                        yield made

    def _settings(self, registry: Registry) -> Settings:
        """The settings of the module that scrapy.cfg names. Raises ConfigError."""
        config = ConfigParser()
        path = self.root / CONFIG
        try:
            config.read_string(registry.read(path).decode())
        except (OSError, UnicodeDecodeError, ConfigParserError) as error:
            raise ConfigError(
                f"{path} cannot be read: {error}; CRAWLFRAME_SCRAPY names the directory of a "
                "Scrapy project, which has a scrapy.cfg"
            ) from None
        project = os.environ.get("SCRAPY_PROJECT", "default")
        module = config.get("settings", project, fallback="")
        if not module:
            raise ConfigError(f"{path}: its section [settings] has no {project}")
        os.environ[VARIABLE] = module  # for get_project_settings in the author's code
        settings = Settings()
        settings.setmodule(module, priority="project")
        AddonManager.load_pre_crawler_settings(settings)
        if not settings.getlist("SPIDER_MODULES"):
            raise ConfigError(f"{module}: SPIDER_MODULES is missing: it lists packages of spiders")
        components.load(settings)
        return settings

    def _modules(self, names: Iterable[str], registry: Registry) -> Iterator[tuple[str, Path]]:
        """Names and files of all modules in packages, modules of the packages first."""
        for name in dict.fromkeys(names):
            package, _, last = name.rpartition(".")
            places = [Path(place) for place in sys.path]
            if package:
                parent = registry.attempt(
                    package, self.root / CONFIG, partial(importlib.import_module, package)
                )
                if parent is None:
                    continue
                places = [Path(place) for place in parent.__path__]
            single = next((p / f"{last}.py" for p in places if (p / f"{last}.py").is_file()), None)
            if single is not None:
                yield name, single
                continue
            directory = next((p / last for p in places if (p / last).is_dir()), None)
            if directory is None:
                registry.refuse(name, f"{self.root / CONFIG}:1: SPIDER_MODULES names {name}, which "
                                    "does not exist")  # fmt: skip
                continue
            for path in files(directory):
                parts = path.relative_to(directory).with_suffix("").parts
                if path.suffix == ".py" and "__main__" not in parts:
                    parts = parts[:-1] if parts[-1] == "__init__" else parts
                    yield ".".join((name, *parts)), path

    def _packages(self) -> list[Path]:
        """The packages and modules of the project's root, without tests and build output."""
        if not self.root.is_dir():
            return [self.root]
        return [
            path
            for path in sorted(self.root.iterdir())
            if path.suffix == ".py" or (path / "__init__.py").is_file()
        ]


def spiders_of(root: Path, **options: Any) -> Registry:
    """The spiders of one project and no others; ``options`` are passed to Registry.load."""
    with TemporaryDirectory() as place:
        package = Path(place, "no_spiders")
        package.mkdir()
        return Registry.load(package, sources=[ScrapyProject(root)], **options)
