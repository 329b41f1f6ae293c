"""startspider: writes a new spider to start from, and its first test."""

from __future__ import annotations

import json
import keyword
import re
from argparse import ArgumentParser
from pathlib import Path
from string import Template
from typing import Any

from django.conf import settings
from django.core.management import call_command

import crawlframe
from crawlframe.base.program import command
from crawlframe.base.urls import hostname_of, join, normalise
from crawlframe.code.package import find_package
from crawlframe.errors import CrawlframeError
from crawlservice.cli.command import ServiceCommand

PROJECT = "class ProjectSpider(Spider):"  # in project.py: the base class of the project's spiders
TEMPLATES = Path(__file__).parents[2] / "templates"


class Command(ServiceCommand):
    help = "Creates spiders/NAME.py and tests/test_NAME.py from templates."
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="letters, digits and _; also the spider's name")
        parser.add_argument("url", nargs="?", default="https://example.com/", help="where to start")
        parser.add_argument("--record", action="store_true", help="also do `spider record`")

    def handle(self, *args: Any, **options: Any) -> None:
        name, url = options["name"], options["url"]
        package = settings.CRAWLFRAME.spiders
        directory = find_package(package) or settings.BASE_DIR / package.replace(".", "/")
        self.stdout.write(f"wrote {write_spider(directory, package, name, url)}")
        if test := write_test(directory, package, name, url):
            self.stdout.write(f"wrote {test}")
        if options["record"]:
            call_command("spider", "record", name, stdout=self.stdout, stderr=self.stderr)
        else:
            self.stdout.write(f"Keep pages for its tests: {command(f'spider record {name}')}")
        self.stdout.write(f"Try it: {command(f'fetch {url} --shell')}")
        self.stdout.write(f"Run it: {command(f'crawl {name} -o {name}.jsonl')}")


class NewSpiderError(CrawlframeError):
    """The spider cannot be written."""


def write_spider(directory: Path, package: str, name: str, url: str) -> Path:
    """Creates ``directory/name.py``, a module of ``package``. Its class inherits from the project's
    ProjectSpider, if there is one. Raises NewSpiderError, and BadRequest on a wrong URL."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,99}", name) or keyword.iskeyword(name):
        raise NewSpiderError(
            f"{name!r} cannot be a spider's name; use letters, digits and _, such as my_shop"
        )
    url = normalise(url)
    host = hostname_of(url)
    base, imports = "Spider", "from crawlframe import Request, Response, Spider"
    project = directory / "project.py"
    if project.is_file() and PROJECT in project.read_text("utf-8"):
        base = "ProjectSpider"
        imports = f"from crawlframe import Request, Response\nfrom {package}.project import {base}"
    values = {
        "name": json.dumps(name),
        "class_name": _class_name(name),
        "base": base,
        "imports": imports,
        "url": json.dumps(url),
        "host": host,
        "domain": json.dumps(host),
        "config": command(f"config show {name}"),
    }
    path = directory / f"{name}.py"
    if not _written(path, "spider.py.txt", values):
        raise NewSpiderError(f"{path} exists already; choose another name or remove it")
    return path


def write_test(directory: Path, package: str, name: str, url: str) -> Path | None:
    """Creates the first test of a new spider, in the folder ``tests`` next to the package. Returns
    None if there is a file of that name, or none belongs there. Raises NewSpiderError."""
    url = normalise(url)
    values = {
        "name": name,
        "package": package,
        "class_name": _class_name(name),
        "url": json.dumps(url),
        "next": json.dumps(join(url, "/next")),
        "record": command(f"spider record {name}"),
    }
    project = directory.absolute().parents[package.count(".")]
    if project == Path(crawlframe.__file__).parents[1]:
        return None  # a checkout of Crawlframe, whose tests are its own
    path = project / "tests" / f"test_{name}.py"
    return path if _written(path, "spider_test.py.txt", values) else None


def _written(path: Path, template: str, values: dict[str, str]) -> bool:
    """Whether the file was made from the template: False if there is one. Raises NewSpiderError."""
    text = Template((TEMPLATES / template).read_text("utf-8")).substitute(values)
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    except OSError as error:
        raise NewSpiderError(f"{path} cannot be written: {error}") from None
    return True


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_")) + "Spider"
