"""Texts of random words, and texts that are nearly the same."""

from __future__ import annotations

from random import Random


def text(seed: int, words: int) -> list[bytes]:
    """A text with some frequent words, as in a language."""
    chance = Random(seed)
    return [b"w%d" % int(chance.paretovariate(0.5)) for _ in range(words)]


def changed(words: list[bytes], share: float, chance: Random) -> list[bytes]:
    """Words are replaced, inserted and removed at random places."""
    found = [*words]
    places = chance.sample(range(len(words)), round(len(words) * share))
    for place in sorted(places, reverse=True):
        new = b"n%d" % chance.randrange(10**6)
        match chance.randrange(3):
            case 0:
                found[place] = new
            case 1:
                found.insert(place, new)
            case _:
                del found[place]
    return found
