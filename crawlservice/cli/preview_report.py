"""Report: a preview as text for a terminal, as Markdown for a pull request, and as JSON. Values and
addresses are of pages, so they are never markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from crawlframe.preview.comparison import Example, SpiderComparison
from crawlframe.preview.rules import is_slower, name_of
from crawlservice.cli.listing import plain
from crawlservice.preview.result import LINES, ROWS, Preview, Row, rows_of

HEADINGS = ("spider", "what", "unchanged", "gained", "lost", "changed")
VALUE = 60  # characters of a value
URL = 120  # characters of an address
NAMES = 20  # spiders in a sentence
COLOURS = {"gained": "green", "lost": "red", "changed": "yellow"}


def show(preview: Preview, console: Console) -> None:
    """Prints a table of the differences, and examples."""
    console.print(Text(plain(title(preview)), "bold"))
    rows = rows_of(preview)
    if rows:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in HEADINGS:
            is_number = heading in HEADINGS[2:]
            table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
        for row in rows[:ROWS]:
            numbers = (
                Text(f"{number:,}", COLOURS.get(kind, "") if number else "dim")
                for kind, number in zip(HEADINGS[2:], row.numbers, strict=True)
            )
            name = Text(plain(row.name), "bold red" if row.fails else "")
            table.add_row(Text(plain(row.spider.spider)), name, *numbers)
        console.print(table)
        for row, example in _examples(rows):
            head = f"{row.spider.spider}.{row.name} {example.kind}: "
            console.print(Text(plain(head + _values(example)), overflow="fold"))
            console.print(Text(f"  {plain(_cut(example.url, URL))}", "dim", overflow="fold"))
    for line in sentences(preview, len(rows)):
        console.print(Text(plain(line)))


def markdown(preview: Preview) -> str:
    """The same as Markdown."""
    verdict = "❌" if preview.regressions else "✅"
    lines = [f"### {verdict} Preview of {_code(preview.after)} against {_code(preview.before)}", ""]
    rows = rows_of(preview)
    if rows:
        lines += [_line(HEADINGS), _line(["---", "---", *["---:"] * 4])]
        for row in rows[:ROWS]:
            mark = "❌ " if row.fails else ""
            numbers = (f"{number:,}" if number else "" for number in row.numbers)
            lines.append(_line([_code(row.spider.spider), mark + _code(row.name), *numbers]))
        lines += ["", "<details><summary>Examples</summary>", ""]
        lines += [_line(["what", "before", "after", "page"]), _line(["---"] * 4)]
        for row, example in _examples(rows):
            what = f"{_code(f'{row.spider.spider}.{row.name}')} {example.kind}"
            values = (_code(one) if one is not None else "" for one in example[2:4])
            lines.append(_line([what, *values, _code(_cut(example.url, URL))]))
        lines += ["", "</details>", ""]
    lines += [f"* {_escaped(line)}" for line in sentences(preview, len(rows))]
    return "\n".join(lines) + "\n"


def as_json(preview: Preview) -> dict[str, Any]:
    """The whole result for programs."""
    return {
        "before": preview.before,
        "after": preview.after,
        "pages": preview.pages,
        "same_code": preview.same,
        "untried": preview.untried,
        "notes": preview.notes,
        "regressions": [
            {"spider": one.spider, "part": one.part, "text": one.words}
            for one in preview.regressions
        ],
        "spiders": [_described(one) for one in preview.spiders],
    }


def title(preview: Preview) -> str:
    return f"Preview of {preview.after} against {preview.before}"


def sentences(preview: Preview, rows: int) -> Iterator[str]:
    """The result in sentences, the verdict last."""
    for one in preview.spiders:
        if one.problem:
            yield f"{one.spider}: {one.problem}"
        for why, number in one.left_out.items():
            yield f"{one.spider}: {_some(number, 'page')} not compared: {why}"
        if one.unsteady:
            names = ", ".join(sorted(map(name_of, one.unsteady)))
            yield f"{one.spider}: {names} differ from run to run of the same code: not compared"
        if is_slower(one):
            before, after = one.times
            yield f"{one.spider} is slower: {_ms(before)} -> {_ms(after)} a page"
    yield from preview.notes
    if rows > ROWS:
        yield f"{rows - ROWS:,} further differences are in --format json"
    if preview.untried:
        yield f"new, or without a kept page: {_named(preview.untried)}"
    yield _summary(preview, rows)


def _summary(preview: Preview, rows: int) -> str:
    spiders, pages = _some(len(preview.spiders), "spider"), _some(preview.pages, "page")
    found = f"{spiders} on {pages}"
    if preview.same:
        found += f" ({preview.same:,} with the same code left out)"
    sums = [sum(sum(one.seconds[side]) for one in preview.spiders) for side in (0, 1)]
    times = sum(len(one.seconds[0]) for one in preview.spiders) or 1
    speed = f"{_ms(sums[0] / times)} -> {_ms(sums[1] / times)} a page"
    errors = _some(len(preview.regressions), "error")
    return f"{found}, {speed}: {_some(rows, 'difference')}, {errors} by the rules"


def _examples(rows: Iterable[Row]) -> list[tuple[Row, Example]]:
    found = [(row, one) for row in rows for one in row.tally.examples]
    return found[:LINES]


def _described(spider: SpiderComparison) -> dict[str, Any]:
    before, after = spider.times
    return {
        "spider": spider.spider,
        "pages": spider.pages,
        "problem": spider.problem,
        "not_compared": dict(spider.left_out),
        "unsteady": sorted(spider.unsteady),
        "seconds_before": before,
        "seconds_after": after,
        "parts": {
            part: {
                "unchanged": tally.unchanged,
                "gained": tally.gained,
                "lost": tally.lost,
                "changed": tally.changed,
                "examples": [one._asdict() for one in tally.examples],
            }
            for part, tally in spider.parts.items()
        },
    }


def _values(example: Example) -> str:
    before, after = ("nothing" if one is None else _cut(one, VALUE) for one in example[2:4])
    return f"{before} -> {after}".replace("\n", " ")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _code(text: str) -> str:
    """Text that Markdown shows as it is, within one cell of a table."""
    shown = plain(_cut(text, URL)).replace("\n", " ").replace("`", "'").replace("|", "\\|")
    return f"`{shown}`" if shown.strip() else ""


def _escaped(text: str) -> str:
    """A sentence without markup."""
    line = plain(text).replace("\n", " ")
    return "".join(f"\\{mark}" if mark in "\\`*_{}[]<>()#+!|~@$" else mark for mark in line)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMES:,} more" if len(names) > NAMES else ""
    return f"{', '.join(names[:NAMES])}{more}"


def _some(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"
