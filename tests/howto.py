"""The examples of the documentation: spiders that tests can run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from crawlframe import Spider
from crawlframe.spider.spider import describe

PAGES = Path(__file__).parents[1] / "docs"
_CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def spider_of(page: str, name: str, site: str = "") -> type[Spider]:
    """The spider of this name in the examples of a page of docs; with ``site``, the URL of a
    server, for that one in place of its own."""
    for source in _CODE.findall((PAGES / page).read_text()):
        if f'name = "{name}"' not in source:
            continue
        if site:
            source = re.sub(r"https://[a-z]+\.example", site, source)
            source = re.sub(r'\["[a-z]+\.example"\]', '["127.0.0.1"]', source)
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(source, page, "exec", dont_inherit=True), names)
        for value in names.values():
            if isinstance(value, type) and issubclass(value, Spider) and value.name == name:
                describe(value)
                return value
    raise LookupError(f"{page} has no spider {name!r}")
