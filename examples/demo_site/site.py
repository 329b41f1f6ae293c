"""Site: the content of the demo site, a pure function of its few parameters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from examples.demo_site.draw import Draw
from examples.demo_site.listing import FIRST_ID, Listing, make_listing

DISTRICTS = (
    "Mitte", "Friedrichshain", "Kreuzberg", "Pankow", "Charlottenburg", "Wilmersdorf", "Spandau",
    "Steglitz", "Tempelhof", "Schöneberg", "Neukölln", "Köpenick", "Lichtenberg", "Reinickendorf",
)  # fmt: skip
AGENTS = 40
MIN_SIZE, MAX_SIZE = 25, 200  # kB; below, the frame alone is larger, above, text would repeat


class Site:
    """A city's houses for sale. ``size`` is the target size of an HTML page in kB; pages vary
    around it by a quarter. Raises ValueError naming the wrong parameter."""

    def __init__(
        self,
        listings: int = 5000,
        city: str = "berlin",
        districts: Sequence[str] = DISTRICTS,
        page_size: int = 20,
        size: int = 30,
        seed: int = 1,
    ) -> None:
        if listings < 0:
            raise ValueError(f"listings is {listings}; give 0 or more")
        if page_size < 1:
            raise ValueError(f"page_size is {page_size}; give 1 or more")
        if not MIN_SIZE <= size <= MAX_SIZE:
            raise ValueError(f"size is {size}; give {MIN_SIZE} to {MAX_SIZE} (kB per page)")
        self.listings, self.page_size, self.size, self.seed = listings, page_size, size, seed
        self.city = city.strip().lower()
        self.districts = {slug_of(name): name for name in districts}
        if not self.city:
            raise ValueError("city is empty; give a keyword such as berlin")
        if not districts or len(self.districts) < len(districts) or "" in self.districts:
            raise ValueError(f"districts are {list(districts)}; give one or more different names")
        self._slugs = list(self.districts)
        self.listing = lru_cache(maxsize=1 << 16)(self._listing)

    def ids(self) -> range:
        return range(FIRST_ID, FIRST_ID + self.listings)

    def ids_in(self, slug: str) -> range:
        """The listings of a district, in the order of its list pages."""
        return self.ids()[self._slugs.index(slug) :: len(self._slugs)]

    def slug(self, id: int) -> str:
        """The district of a listing, as URLs name it."""
        return self._slugs[(id - FIRST_ID) % len(self._slugs)]

    def list_pages(self, slug: str) -> int:
        """The number of list pages of a district: at least one, which may be empty."""
        return max(1, -(-len(self.ids_in(slug)) // self.page_size))

    def crawl_pages(self) -> int:
        """Pages a crawl of all listings fetches: search, districts, lists, details and visits."""
        lists = sum(self.list_pages(slug) for slug in self._slugs)
        return 1 + len(self._slugs) + lists + 2 * self.listings

    def expected_items(self) -> Iterator[dict[str, Any]]:
        """The items of a complete crawl, by ascending id."""
        return (self._listing(id).item() for id in self.ids())

    def _listing(self, id: int) -> Listing:
        place = (id - FIRST_ID) % len(self._slugs)
        name = self.districts[self._slugs[place]]
        return make_listing(self.seed, id, name, 10100 + 150 * place, AGENTS)

    def some(self, key: object, count: int) -> list[int]:
        """Up to ``count`` ids picked by ``key``, none twice: other listings that a page shows."""
        draw, ids = Draw(self.seed, "some", key), self.ids()
        return list(dict.fromkeys(draw.pick(ids) for _ in range(count if ids else 0)))


def slug_of(name: str) -> str:
    """``Schöneberg`` -> ``schoneberg``: how a name appears in a URL."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
