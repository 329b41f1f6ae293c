"""Sites: histories of runs over simulated sites of several shapes, from a seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.quality.languages import WORDS, sentence

SHAPES = ("growing", "seasonal", "small", "noisy", "large")
SECTIONS = ("books", "toys", "garden", "music", "kitchen", "office", "sale")


@dataclass
class SimulatedPage:
    url: str
    status: int
    section: str
    items: list[dict[str, Any]] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return self.status >= 400


class Site:
    """One site. ``run`` is a crawl of it on a day; each run of the same site and day is equal."""

    def __init__(self, seed: int) -> None:
        random = Random(f"site {seed}")
        self.seed = seed
        self.shape = SHAPES[seed % len(SHAPES)]
        self.language = random.choice([*WORDS])
        self.sections = random.sample(SECTIONS, random.randint(3, len(SECTIONS)))
        self.weights = [random.uniform(0.5, 1.5) for _ in self.sections]
        self.per_page = random.choice([1, 1, 6, 12, 24])
        self.in_order = random.random() < 0.5  # one section after the other
        self.errors = random.uniform(0, 0.03)
        self.price = random.uniform(2, 5)
        self.optional = random.uniform(0.2, 0.9)
        self.usual = {
            "growing": random.uniform(200, 500),
            "seasonal": random.uniform(300, 700),
            "small": random.uniform(30, 90),
            "noisy": random.uniform(200, 600),
            "large": random.uniform(2500, 4000),
        }[self.shape]
        self.grows = random.uniform(1.01, 1.08)

    def size(self, day: int) -> int:
        """The number of items on a day."""
        random = Random(f"size {self.seed} {day}")
        size = self.usual * random.gauss(1, 0.02)
        if self.shape == "growing":
            size *= self.grows**day
        elif self.shape == "seasonal":
            size *= 1 + 0.4 * math.sin(2 * math.pi * day / 7)
        elif self.shape == "noisy":
            size *= math.exp(random.gauss(0, 0.12))
        return max(5, round(size))

    def run(self, day: int) -> list[SimulatedPage]:
        random = Random(f"run {self.seed} {day}")
        noisy = self.shape == "noisy"
        errors = self.errors * (random.uniform(0, 3) if noisy else random.uniform(0.7, 1.3))
        optional = self.optional + (random.uniform(-0.08, 0.08) if noisy else 0)
        pages: list[SimulatedPage] = []
        size, total = self.size(day), sum(self.weights)
        left = {
            section: size * weight / total * random.gauss(1, 0.05)
            for section, weight in zip(self.sections, self.weights, strict=True)
        }
        while left:
            section = random.choices([*left], [*left.values()])[0]
            count = max(1, round(min(left[section], self.per_page * random.uniform(0.8, 1.2))))
            left[section] -= count
            if left[section] < 0.5:
                del left[section]
            url = f"https://shop.example/{section}/{len(pages)}"
            page = SimulatedPage(url, 200, section)
            if random.random() < errors:
                page.status = random.choice([404, 404, 500])
            else:
                page.items = [self._item(random, section, day, optional) for _ in range(count)]
            pages.append(page)
        if self.in_order:
            pages.sort(key=lambda page: self.sections.index(page.section))
        return pages

    def _item(self, random: Random, section: str, day: int, optional: float) -> dict[str, Any]:
        sku = random.getrandbits(48)
        price = math.exp(random.gauss(self.price, 0.8)) * 1.004**day
        item: dict[str, Any] = {
            "url": f"https://shop.example/{section}/item-{sku}",
            "sku": f"A{sku}",
            "name": sentence(random, self.language, 3, 6),
            "category": section,
            "price": round(price, 2) if random.random() < 0.99 else None,
            "description": sentence(random, self.language, 8, 40),
            "stock": random.random() < 0.8,
            "images": [f"{n}.jpg" for n in range(random.randint(1, 4))],
        }
        if random.random() < optional:
            item["rating"] = random.choice([3.5, 4.0, 4.5, 5.0])
        if random.random() < 0.2:
            item["old_price"] = round(price * 1.3, 2)
        return item


def batches(pages: list[SimulatedPage], count: int) -> Iterator[list[SimulatedPage]]:
    """The pages of a run in so many parts, or one page each."""
    size = max(1, len(pages) // count)
    for start in range(0, len(pages), size):
        yield pages[start : start + size]
