"""A spider that grows: the successive versions of its source, and the author of its commits.

Each version has a number, which both of its modules write into every item: ``houses.py`` as
``seen_by`` and ``shape.py`` as ``shaped_by``. So an item tells whether one whole version made it,
and which. The number alone determines the version's behaviour: ``fields`` and ``callbacks`` state
it again, for the tests to compare.

The author is honest and knows that queued requests may be older or newer than the code:

* The arguments of callbacks are the same in all versions (``house``, as the listing's page
  shows it). An item gets its shape in one place, in the callback that yields it, and so has
  the shape of one version.
* A callback that is removed leaves requests behind that no version without it can run. They
  are parked, and would stay so for ever: it has to come back. Some versions, among them the
  last, bring back all callbacks that there ever were, so that nothing is left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conftest import CHECKOUT
from tests.repository import Repository

PACKAGE = "growing"
SPIDER = "houses"
OURS = CHECKOUT / "spiders"
LISTINGS = (OURS / "listings.py").read_text().replace("from spiders.", f"from {PACKAGE}.")
PROJECT = (OURS / "project.py").read_text()
LISTING = {
    "id", "title", "district", "address", "price", "rooms", "area", "built", "agent", "features",
    "visits",
}  # fmt: skip

HOUSES = '''"""The houses, version {number}."""

from {package}.listings import ListingsSpider
from {package}.shape import shape

NUMBER = {number}


class Houses(ListingsSpider):
    name = "{spider}"
    settings = {{"concurrency": 16, "delay": 0}}

    def parse_listing(self, response):
        visits, *links = super().parse_listing(response)
        house = {{**visits.cb_kwargs["house"], "found_by": NUMBER}}
        yield response.follow(visits.url, "{target}", cb_kwargs={{"house": house{hint}}})
        yield from links

    def parse_visits(self, response, house{keyword}):
        yield shape(house, response.json()["visits"], NUMBER)
'''
EXTRA = """
    def {name}(self, response, house):
        yield shape(house, response.json()["visits"], NUMBER)
"""
SHAPE = '''"""How an item looks, version {number}."""


def shape(house, visits, seen_by):
    item = {{**house, "visits": visits, "seen_by": seen_by, "shaped_by": {number}}}
{changes}    return item
'''


def fields(number: int) -> set[str]:
    """The fields of the items of a version."""
    own = LISTING | {"found_by", "seen_by", "shaped_by"}
    if number % 3 == 1:
        own = own - {"title"} | {"name"}
    if number % 4 == 2:
        own.add("rate")
    return own


def callbacks(number: int, *, last: bool = False) -> set[str]:
    """The callbacks of a version that come and go. Every fourth version adds a new one, which lives
    for three versions; every eighth, and the last, have all that ever existed."""
    back = last or number % 8 == 7
    born = (n for n in range(1, number + 1) if n % 4 == 1)
    return {f"parse_extra_{n}" for n in born if back or number - n <= 2}


def target(number: int) -> str:
    """The callback that yields the items of a version."""
    born = number - 1 if number % 4 == 2 else number
    return f"parse_extra_{born}" if born % 4 == 1 else "parse_visits"


def hinted(number: int) -> tuple[str, str]:
    """A keyword that the callback of older versions does not take, as it is given and taken."""
    given = ', "hint": "new"' if number % 4 == 3 else ""
    return given, ', hint=""' if number >= 3 else ""


def changes(number: int) -> str:
    """The lines that change the item of a version."""
    lines = ""
    if number % 3 == 1:
        lines += '    item["name"] = item.pop("title")\n'
    if number % 4 == 2:
        lines += '    item["rate"] = house["price"] / house["area"]\n'
    return lines


def sources(number: int, *, last: bool = False) -> dict[str, str]:
    """Path -> text of the package in a version."""
    hint, keyword = hinted(number)
    houses = HOUSES.format(
        package=PACKAGE,
        spider=SPIDER,
        number=number,
        target=target(number),
        hint=hint,
        keyword=keyword,
    )
    for name in sorted(callbacks(number, last=last)):
        houses += EXTRA.format(name=name)
    return {
        f"{PACKAGE}/__init__.py": '"""Spiders that grow."""\n',
        f"{PACKAGE}/project.py": PROJECT,
        f"{PACKAGE}/listings.py": LISTINGS,
        f"{PACKAGE}/houses.py": houses,
        f"{PACKAGE}/shape.py": SHAPE.format(number=number, changes=changes(number)),
    }


def listing_of(item: dict[str, Any]) -> dict[str, Any]:
    """The generator's listing that an item of any version shows."""
    listing = {name: value for name, value in item.items() if name in LISTING}
    if "name" in item:
        listing["title"] = item["name"]
    return listing


def kinds(reloads: int) -> Iterator[str]:
    """The author's steps, until ``reloads`` versions are good: most change, some are broken or
    blank."""
    good = step = 0
    while good < reloads:
        step += 1
        kind = {4: "broken", 6: "empty", 10: "broken", 0: "comment"}.get(step % 12, "change")
        good += kind != "broken"
        yield "last" if good == reloads else kind


class Author:
    """Commits versions in a clone of his own and pushes them to a bare repository.

    ``numbers``: label of a good version (12 digits of its revision) -> its number. ``last``: the
    last label. ``broken``: labels of the versions that must never run."""

    def __init__(self, directory: Path) -> None:
        self._shared = Repository.bare(directory / "shared.git")
        self._mine = self._shared.clone(directory / "author")
        self.numbers: dict[str, int] = {}
        self.broken: set[str] = set()
        self.last = ""
        self._number = 0
        self._note(self._mine.commit({**sources(0)}))

    def clone(self, path: Path) -> Repository:
        return self._shared.clone(path)

    def commit(self, kind: str) -> str:
        """Commits a version of one of ``kinds``. Returns its label."""
        files: dict[str, str | None] = {}
        houses = f"{PACKAGE}/houses.py"
        if kind == "comment":
            files[houses] = (self._mine.path / houses).read_text() + "# Nothing else is new.\n"
        elif kind != "empty":
            number = self._number + 1
            files |= sources(number, last=kind == "last")
            if kind == "broken":
                files[houses] = re.sub(r"(def parse_visits\(.*\)):", r"\1", str(files[houses]))
                return self._note(self._mine.commit(files), broken=True)
            self._number = number
        label = self._note(self._mine.commit(files))
        if kind == "last":
            self.last = label
        return label

    def _note(self, revision: str, *, broken: bool = False) -> str:
        label = revision[:12]
        if broken:
            self.broken.add(label)
        else:
            self.numbers[label] = self._number
        return label
