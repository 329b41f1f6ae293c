"""Tune: the weights of Density, by logistic regression on the half of the pages that is for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp
from operator import mul
from pathlib import Path

from benchmarks.noise.articles import Score, counted, halves, page_links
from benchmarks.noise.labels import Page
from crawlframe.noise.article import Article
from crawlframe.noise.density import ARTICLE, FEATURES, LIKELY, features

RIDGE = 1.0  # of standardised features: it keeps weights small
ROUNDS = 25  # of Newton's method
FOLDS = 5
Row = tuple[float, ...]


def rows(some: Sequence[Page]) -> list[list[tuple[Row | None, bool]]]:
    """Returns, for each page, what is known of its links with text, and whether each is content."""
    found = []
    for page in some:
        links = page_links(page.response)
        pairs = zip(features(links, Article(links)), page.labels, strict=True)
        found.append([(row, label) for row, label in pairs if label is not None])
    return found


def fit(pages: Sequence[Sequence[tuple[Row | None, bool]]]) -> Row:
    """Returns the weights with which the odds of content fit best."""
    data = [(row, label) for page in pages for row, label in page if row is not None]
    size = len(FEATURES)
    mean = [sum(row[at] for row, _ in data) / len(data) for at in range(size)]
    deviation = [
        (sum((row[at] - mean[at]) ** 2 for row, _ in data) / len(data)) ** 0.5 or 1.0
        for at in range(size)
    ]
    mean[0], deviation[0] = 0.0, 1.0  # the constant
    scaled = [
        ([(x - m) / d for x, m, d in zip(row, mean, deviation, strict=True)], label)
        for row, label in data
    ]
    weights = [0.0] * size
    for _ in range(ROUNDS):
        slope = [-RIDGE * weight if at else 0.0 for at, weight in enumerate(weights)]
        curve = [[RIDGE * (at == to and at > 0) for to in range(size)] for at in range(size)]
        for row, label in scaled:
            odds = sum(x * weight for x, weight in zip(row, weights, strict=True))
            likely = 1 / (1 + exp(-max(-30.0, min(30.0, odds))))
            for at, x in enumerate(row):
                slope[at] += x * (label - likely)
                for to in range(at + 1):
                    curve[at][to] += likely * (1 - likely) * x * row[to]
        for at in range(size):
            for to in range(at):
                curve[to][at] = curve[at][to]
        step = _solve(curve, slope)
        weights = [weight + change for weight, change in zip(weights, step, strict=True)]
    own = [weight / d for weight, d in zip(weights, deviation, strict=True)]
    own[0] -= sum(weight * m for weight, m in zip(own[1:], mean[1:], strict=True))
    return tuple(own)


def folds(
    pages: Sequence[Sequence[tuple[Row | None, bool]]],
) -> list[tuple[float, bool]]:
    """Returns the odds of each link by weights that were made without its page, and its label."""
    found = []
    for fold in range(FOLDS):
        weights = fit([page for at, page in enumerate(pages) if at % FOLDS != fold])
        for page in pages[fold::FOLDS]:
            for row, label in page:
                odds = float("-inf")
                if row is not None:
                    odds = sum(x * weight for x, weight in zip(row, weights, strict=True))
                found.append((odds, label))
    return found


def crossed(data: Path) -> Score:
    """Returns how Density would judge each half of the pages by weights of the other half."""
    first, second = halves(data)
    return counted([*_judged(first, fit(rows(second))), *_judged(second, fit(rows(first)))])


def _judged(some: Sequence[Page], weights: Row) -> Iterator[tuple[bool, bool]]:
    for page, links in zip(some, rows(some), strict=True):
        has_article = Article(page_links(page.response)).total >= ARTICLE
        for row, content in links:
            likely = row is not None and sum(map(mul, row, weights)) >= LIKELY
            yield likely or not has_article, content


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The solution of linear equations, by Gauss's elimination."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at in range(size):
        best = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[best] = rows[best], rows[at]
        for row in range(size):
            if row != at:
                factor = rows[row][at] / rows[at][at]
                rows[row] = [x - factor * y for x, y in zip(rows[row], rows[at], strict=True)]
    return [row[-1] / row[at] for at, row in enumerate(rows)]
