"""Text: the content of the standard job's pages, similar to shops'."""

from __future__ import annotations

import random
from functools import cache

BLOCKS = 61  # different sections; a prime, so that pages combine them differently

# fmt: off
FIRST = (
    "Zoë", "Aarav", "Mateo", "Ingrid", "Łukasz", "Mary-Ann", "Hiroko", "Chloé", "Søren", "Olga",
    "José", "Wei", "Amina", "Björn",
)
LAST = (
    "O’Brien", "Müller", "García", "Nowak", "Smith", "Yamamoto", "Ødegård", "Dvořák", "Lefèvre",
    "Rossi", "Kaya", "Ng",
)
THINGS = (
    "Lamp", "Chair", "Kettle", "Bicycle", "Clock", "Blanket", "Mirror", "Radio", "Teapot", "Ladder",
    "Basket", "Drill",
)
KINDS = (
    "oak", "brass", "woollen", "folding", "quiet", "Danish", "second-hand", "tall", "enamelled",
    "spare",
)
WORDS = (
    "the", "of", "and", "a", "to", "in", "is", "it", "you", "that", "he", "was", "for", "on", "are",
    "with", "as", "they", "be", "at", "one", "have", "this", "from", "or", "had", "by", "hot",
    "but", "some", "what", "there", "we", "can", "out", "other", "were", "all", "your", "when",
    "up", "use", "word", "how", "said", "each", "she", "which", "their", "time", "will", "way",
    "about", "many", "then", "them", "would", "write", "like", "these", "long", "make", "thing",
    "see", "him", "two", "has", "look", "more", "day", "could", "go", "come", "did", "sound", "no",
    "most", "number", "who", "over", "know", "water", "than", "call", "first", "people", "may",
    "down", "side", "been", "now", "find", "any", "new", "work", "part", "take", "get", "place",
    "made", "live",
)
# fmt: on


def _text(dice: random.Random, count: int) -> str:
    words = dice.choices(WORDS, k=count)
    words[count // 3] = f"<em>{words[count // 3]}</em>"
    words[count // 2] = f"<strong>{words[count // 2]}</strong>,"
    return " ".join(words).capitalize() + "."


@cache
def block(number: int) -> str:
    """A section such as shops have: text, a picture, a table, an opinion."""
    dice = random.Random(f"block {number}")
    rows = "".join(
        f'<tr><th scope="row">{dice.choice(WORDS)}</th><td>{dice.randrange(1000)} mm</td></tr>\n'
        for _ in range(4)
    )
    return (
        f'<section id="s{number}" class="block block-{number % 5}">\n'
        f"<h2>{_text(dice, 5)}</h2>\n<p>{_text(dice, 60)}</p>\n"
        f'<figure><img src="/img/{number}.webp" alt="{dice.choice(THINGS)}" width="640"'
        f' height="480" loading="lazy"><figcaption>{_text(dice, 8)}</figcaption></figure>\n'
        f'<table class="facts"><tbody>\n{rows}</tbody></table>\n'
        f'<div class="opinion" data-stars="{dice.randrange(1, 6)}"><p>{_text(dice, 40)}</p></div>\n'
        "</section>\n"
    )


HEAD = (
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<link rel="stylesheet" href="/css/site.css">\n<link rel="icon" href="/favicon.ico">\n<style>\n'
    + "".join(
        f".block-{n} > h2 {{ margin: {n}px 0; color: #{n * 1111:06x}; font: bold 1.{n}em serif }}\n"
        for n in range(20)
    )
    + "</style>\n"
)
FOOT = (
    "<footer><p>© Bits &lt;and&gt; Pieces. All prices with tax.</p></footer>\n<script>\n"
    + "".join(
        f'document.querySelectorAll(".block-{n}").forEach(b => {{ if (b.id < "s{n}") '
        f'b.dataset.seen = "<p>" + {n}; }});\n'
        for n in range(20)
    )
    + "</script>\n"
)
