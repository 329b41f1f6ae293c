"""Sources: the text of spider modules, much as people write them, for Crawlframe or for Scrapy.

Both run the same code; only the import of the framework and the name of the settings differ."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

TEMPLATES = Path(__file__).parent / "templates"
KINDS = ("shop", "news", "jobs")


class Framework(NamedTuple):
    """The parts of a spider's source that differ between the two."""

    imports: str
    settings: str  # the attribute's name and value, for 64 requests at a time
    edition: str  # where the demo spider has EDITION from, the last change of the framework


CRAWLFRAME = Framework(
    "from crawlframe import Request, Response, Spider",
    'settings = {"concurrency": 64, "delay": 0}',
    "from crawlframe import EDITION",
)
SCRAPY = Framework(
    "from scrapy import Request, Spider\nfrom scrapy.http import Response",
    'custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 64}',
    "EDITION = 0",
)

# Each change raises one of these numbers, so that the largest of them in a row identifies the last
# change to the code that wrote it.
EDITED = '"""The number of the last change by hand."""\n\nEDITED = {number}\n'
PULLED = '"""The number of the last change that came by git."""\n\nPULLED = {number}\n'
EDITION = "\nEDITION = {number}\n"


def spider_modules(framework: Framework, url: str, count: int) -> dict[str, str]:
    """File name -> text of a package with ``count`` spider modules, of which "demo" crawls the demo
    site at ``url``, and what they share."""
    words = framework._asdict()
    texts = {
        "__init__.py": "",
        "parsing.py": _text("parsing"),
        "edited.py": EDITED.format(number=0),
        "pulled.py": PULLED.format(number=0),
        "demo.py": _text("demo", url=url, **words),
    }
    for number in range(count - 1):
        kind = KINDS[number % len(KINDS)]
        size = str(20 + number % 30)
        texts[f"{kind}{number}.py"] = _text(kind, number=str(number), size=size, **words)
    return texts


def _text(template: str, **words: str) -> str:
    """A template with ``@name@`` replaced."""
    text = (TEMPLATES / f"{template}.txt").read_text()
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return text
