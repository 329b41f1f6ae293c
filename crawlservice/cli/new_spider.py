"""New spiders: what `startspider` writes."""

from __future__ import annotations

import json
import keyword
import re
from pathlib import Path
from string import Template

import crawlframe
from crawlframe.base.program import command
from crawlframe.base.urls import hostname_of, join, normalise
from crawlframe.errors import CrawlframeError

PROJECT = "class ProjectSpider(Spider):"  # in project.py: the base class of the project's spiders
TEMPLATES = Path(__file__).parent.parent / "templates"


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
    base, imports = "Spider", ["from crawlframe import Request, Response, Spider"]
    project = directory / "project.py"
    if project.is_file() and PROJECT in project.read_text("utf-8"):
        base = "ProjectSpider"
        imports = [
            "from crawlframe import Request, Response",
            f"from {package}.project import {base}",
        ]
    text = Template((TEMPLATES / "spider.py.txt").read_text("utf-8")).substitute(
        name=json.dumps(name),
        class_name=_class_name(name),
        base=base,
        imports="\n".join(imports),
        url=json.dumps(url),
        host=host,
        domain=json.dumps(host),
    )
    path = directory / f"{name}.py"
    try:
        directory.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise NewSpiderError(f"{path} exists already; choose another name or remove it") from None
    except OSError as error:
        raise NewSpiderError(f"{path} cannot be written: {error}") from None
    return path


def write_test(directory: Path, package: str, name: str, url: str) -> Path | None:
    """Creates the first test of the spider that ``write_spider`` has made, in the folder ``tests``
    next to the package. Returns None if there is a file of that name, or none belongs there. Raises
    NewSpiderError."""
    url = normalise(url)
    values = {
        "name": name,
        "package": package,
        "class_name": _class_name(name),
        "url": json.dumps(url),
        "next": json.dumps(join(url, "/next")),
        "record": command(f"record {name}"),
    }
    text = Template((TEMPLATES / "spider_test.py.txt").read_text("utf-8")).substitute(values)
    project = directory.absolute().parents[package.count(".")]
    if project == Path(crawlframe.__file__).parents[1]:
        return None  # a checkout of Crawlframe, whose tests are its own
    folder = project / "tests"
    path = folder / f"test_{name}.py"
    try:
        folder.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return None
    except OSError as error:
        raise NewSpiderError(f"{path} cannot be written: {error}") from None
    return path


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_")) + "Spider"
