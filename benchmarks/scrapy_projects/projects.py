"""Projects: which public projects are looked at, at which commit, and what is crawled of them."""

from __future__ import annotations

import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Project:
    """``directory`` has the scrapy.cfg, in the repository. ``every``: each how manieth spider is
    started. ``environment``: what the project documents as needed."""

    name: str
    repository: str
    commit: str
    directory: str = "."
    every: int = 1
    environment: dict[str, str] = field(default_factory=dict)

    def checkout(self, directory: Path) -> Path:
        """Where it is among the checkouts."""
        return directory / self.repository.replace("/", "+")

    def difference(self, directory: Path) -> str:
        """What is wrong with its checkout; "" if it is at the commit."""
        place = self.checkout(directory)
        if not (place / self.directory / "scrapy.cfg").is_file():
            return f"{place / self.directory} has no scrapy.cfg"
        done = subprocess.run(
            ["git", "-C", place, "rev-parse", "HEAD"], capture_output=True, text=True
        )
        found = done.stdout.strip() or "unknown"
        return "" if found == self.commit else f"its commit is {found}, not {self.commit}"


@dataclass(frozen=True)
class Crawl:
    """One spider. ``volatile``: keys of items that differ at each run, such as the time."""

    project: str
    spider: str
    kind: str
    pages: dict[str, Any]
    arguments: dict[str, str]
    volatile: tuple[str, ...]


def projects() -> list[Project]:
    with (HERE / "projects.toml").open("rb") as file:
        return [Project(**one) for one in tomllib.load(file)["projects"]]


def crawls() -> list[Crawl]:
    with (HERE / "crawls.toml").open("rb") as file:
        read = tomllib.load(file)
    sites = read.get("sites", {})
    return [
        Crawl(
            one["project"],
            spider,
            one["kind"],
            {**sites.get(one.get("site"), {}), **one.get("pages", {})},
            one.get("arguments", {}),
            tuple(one.get("volatile", ())),
        )
        for one in read["crawls"]
        for spider in one["spiders"]
    ]
