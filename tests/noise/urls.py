"""URLs of generated sites with known templates."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

from crawlframe.base.urls import normalise


class Labelled(NamedTuple):
    """A normalised URL, the template that it was made of, and whether that is noise."""

    url: str
    template: str
    noise: bool = False


# The URLs of well-known software. A word in braces is filled in; the number is how frequent it is.
TEMPLATES: dict[str, dict[str, int]] = {
    "shop": {
        "/category/{slug}": 2, "/category/{slug}?page={n}": 4, "/product/{n}-{slug}": 12,
        "/brand/{word}": 2, "/product/{n}-{slug}/reviews": 3, "/help/{slug}": 1,
    },
    "wiki": {
        "/wiki/{Title}": 10, "/wiki/Talk:{Title}": 3, "/wiki/Category:{Title}": 2,
        "/w/index.php?title={Title}&action=edit": 3, "/w/index.php?title={Title}&oldid={n}": 4,
        "/w/index.php?title={Title}&diff={n}&oldid={n}": 3,
    },
    "news": {
        "/{year}/{month}/{day}/{section}/{slug}.html": 12, "/topic/{slug}": 3, "/by/{name}": 2,
        "/section/{section}?page={n}": 2, "/video/{n}/{slug}": 3,
    },
    "listings": {
        "/listing/{uuid}": 8, "/listings/{word}?page={n}": 3, "/agents/{slug}": 2,
        "/listing/{uuid}/photos/{n}": 5, "/map/{word}/{word}": 2,
    },
}  # fmt: skip
# Noise is injected into each site: pages without end that say nothing new.
NOISE: dict[str, int] = {
    "/calendar/{year}/{month}/{day}": 4,
    "/events?month={year}-{month}&view={word}": 3,
    "/go/{sha}": 2,
}
SESSIONS = ("sid={sha}", "PHPSESSID={sha}")  # on URLs of the site
FACETS = ("color={word}", "size={n}", "brand={word}", "sort={word}", "price={n}-{n}")
NOISY = 0.3  # of the URLs
_SLOT = re.compile(r"\{(\w+)\}")
_SOUNDS = ["b", "br", "c", "ch", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v"]
_VOWELS = ["a", "e", "i", "o", "u", "ea", "ou"]


class Filler:
    """Fills the slots of templates, with words of a vocabulary that real ones resemble in that few
    of them are frequent."""

    def __init__(self, seed: int) -> None:
        self._rng = rng = random.Random(seed)
        self._words = [self._word(rng.choice((1, 2, 2, 3))) for _ in range(4_000)]
        self._names = [
            self._word(2) + rng.choice(["", str(rng.randint(1, 99))]) for _ in range(500)
        ]
        self._sections = [self._word(2) for _ in range(8)]

    def _word(self, syllables: int) -> str:
        rng = self._rng
        parts = [rng.choice(_SOUNDS) + rng.choice(_VOWELS) for _ in range(syllables)]
        return "".join(parts) + rng.choice(["", "n", "s", "t", "ng"])

    def fill(self, template: str) -> str:
        """Returns the template with a value in each slot."""
        return _SLOT.sub(lambda slot: self._value(slot[1]), template)

    def _value(self, slot: str) -> str:
        rng = self._rng
        word = self._words[min(int(rng.paretovariate(0.5)) - 1, len(self._words) - 1)]
        match slot:
            case "n":
                return str(int(rng.paretovariate(0.3)) % 10**6)
            case "slug":
                return "-".join(rng.choice(self._words) for _ in range(rng.randint(2, 9)))
            case "name":
                return rng.choice(self._names)
            case "Title":
                count = rng.randint(1, 4)
                return "_".join(rng.choice(self._words).capitalize() for _ in range(count))
            case "sha":
                return f"{rng.getrandbits(160):040x}"
            case "uuid":
                bits = f"{rng.getrandbits(128):032x}"
                return "-".join((bits[:8], bits[8:12], bits[12:16], bits[16:20], bits[20:]))
            case "year":
                return str(rng.randint(2015, 2026))
            case "month":
                return f"{rng.randint(1, 12):02}"
            case "day":
                return f"{rng.randint(1, 28):02}"
            case "section":
                return rng.choice(self._sections)
        return word


def generated(site: str, count: int, seed: int, *, noise: bool) -> list[Labelled]:
    """Returns URLs of a site, in random order; with noise, a part of them is that."""
    rng, filler = random.Random(seed), Filler(seed)
    templates = TEMPLATES[site]
    content = rng.choices([*templates], [*templates.values()], k=count)
    host = f"https://{site}.example"
    made = []
    for template in content:
        if not noise or rng.random() >= NOISY:
            made.append(Labelled(normalise(host + filler.fill(template)), template))
            continue
        kind = rng.choice(("family", "session", "facets"))
        if kind == "family":
            template = rng.choices([*NOISE], [*NOISE.values()])[0]
        elif kind == "session":
            template += ("&" if "?" in template else "?") + rng.choice(SESSIONS)
        else:
            some = rng.sample(FACETS, rng.randint(2, len(FACETS)))
            template = f"/browse/{{word}}?{'&'.join(some)}"
        label = "facets" if kind == "facets" else template
        made.append(Labelled(normalise(host + filler.fill(template)), label, noise=True))
    return made
