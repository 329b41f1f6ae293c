"""``python -m benchmarks.text --data DIR``"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.lab.job import run, say, show
from benchmarks.lab.results import machine, write
from benchmarks.text.data import BODY, SOURCE, Data, Page, load
from crawlframe.testing import make_response
from crawlframe.text.article import Article

SAMPLES = 1_000  # of the bootstrap
MAX_SECONDS = 2.0  # for one page


class Way(NamedTuple):
    """A way to get the text of a page. ``goal``: the least F1."""

    name: str
    goal: float
    text: Callable[[Article], str]


WAYS = (
    Way("text", 0.955, lambda article: article.text),
    Way("markdown", 0.94, lambda article: without_marks(article.markdown)),
    Way("fast_text", 0.89, lambda article: article.fast_text),
)


class Found(NamedTuple):
    """``seconds``: of processor time, for each page."""

    metrics: dict[str, float]
    seconds: list[float]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.text",
        description="Extracts the articles of 181 pages of a public benchmark with "
        "response.article, and compares them with what people marked, by the measure of that "
        "benchmark: precision, recall and F1 of sequences of four words. Half a minute; ends with "
        f"1 if F1 is below its goal, or a page takes more than {MAX_SECONDS:g} s.",
        epilog=f"The pages are not part of Crawlframe: git clone {SOURCE} DIR",
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help=f"of {SOURCE}")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    return run("text", lambda work: measure(options.data, options.output))


def measure(root: Path, output: Path | None) -> int:
    data = load(root)
    _ = [way.text(article_of(data.pages[0])) for way in WAYS]  # imports take longer than a page
    found = {way.name: of(way, data) for way in WAYS}
    columns = ("F1", "goal", "precision", "recall", "ms: median", "mean", "longest")
    rows = [[way.name, *cells(way, found[way.name])] for way in WAYS]
    show(f"Articles of {len(data.pages)} pages", columns, rows)
    ways = {name: {**one.metrics, "seconds": one.seconds} for name, one in found.items()}
    figures = {"job": "text", "machine": machine(), "pages": len(data.pages), "ways": ways}
    say("text", f"figures: {write('text', figures, output)}")
    problems = [
        f"{way.name}: {problem}" for way in WAYS for problem in shortcomings(way, found[way.name])
    ]
    for problem in problems:
        say("text", problem)
    return 1 if problems else 0


def of(way: Way, data: Data) -> Found:
    """The text of all pages in this way."""
    predicted: dict[str, Any] = {}
    seconds = []
    for page in data.pages:
        article = article_of(page)
        started = time.process_time()
        text = way.text(article)
        seconds.append(time.process_time() - started)
        predicted[page.key] = {BODY: text}
    random.seed(0)  # the bootstrap draws from it
    found = data.evaluate(data.truth, predicted, SAMPLES)
    metrics = {name: value for name, value in found.items() if isinstance(value, float)}
    return Found(metrics, seconds)


def article_of(page: Page) -> Article:
    """That of a fresh response."""
    return make_response(page.url or "http://www.example.com/", html=page.html).article


def cells(way: Way, found: Found) -> list[str]:
    numbers = [
        f"{found.metrics[name]:.3f} ± {deviation(found, name):.3f}"
        for name in ("f1", "precision", "recall")
    ]
    times = (median(found.seconds), sum(found.seconds) / len(found.seconds), max(found.seconds))
    return [numbers[0], f"{way.goal:g}", *numbers[1:], *(f"{1000 * one:.1f}" for one in times)]


def deviation(found: Found, name: str) -> float:
    """As the bootstrap estimates it; newer versions of the benchmark call it otherwise."""
    return found.metrics.get(f"{name}_std", found.metrics.get(f"{name}_ci", 0.0))


def shortcomings(way: Way, found: Found) -> list[str]:
    """What is worse than its goal, in words."""
    problems = []
    if found.metrics["f1"] < way.goal:
        problems.append(f"F1 is {found.metrics['f1']:.3f}, below {way.goal:g}")
    if max(found.seconds) > MAX_SECONDS:
        problems.append(f"a page took {max(found.seconds):.1f} s, more than {MAX_SECONDS:g}")
    return problems


_LINK = re.compile(r"!?\[((?:\\.|[^\]\\])*)\]\((?:<[^>\n]*>|[^)\s]*)\)")
_NUMBER = re.compile(r"^(\s*)\d+[.)] ", re.MULTILINE)


def without_marks(markdown: str) -> str:
    """The words of Markdown: without the targets of links and the numbers of lists. Other marks are
    no words."""
    return _NUMBER.sub(r"\1", _LINK.sub(r"\1", markdown)).replace("\\", "")


if __name__ == "__main__":
    sys.exit(main())
