"""Page: docs/mutants.md, which says of every line of the protocol what was broken there and which
test noticed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tests.mutants import lua, python
from tests.mutants.arena import CHECKOUT
from tests.mutants.equivalent import reason
from tests.mutants.mutant import Mutant
from tests.mutants.verdicts import QUICK, Verdict

PAGE = CHECKOUT / "docs" / "mutants.md"
SURVIVES, UNTRIED, EQUIVALENT = "**nothing**", "(not yet)", "equivalent: "
ROW = re.compile(r"^\| (\d+) \| (`+ ?)(.*?)( ?`+) \| (.*) \| (.*) \|$")
INTRODUCTION = """\
# Mutants: what happens when a line of the protocol is broken

The promise of Crawlframe (fetch at least once, effect exactly once) is kept by some {lines} lines
of Lua and Python. Here each of them is broken, one at a time: it is taken out, a condition always
or never holds, a comparison or a sign is another, an operand is missing. Then the tests run until
one fails. A change that no test notices would be a line of which nobody knows what it is for.

`python -m tests.mutants` does it, in copies of the checkout, with real Redis and database servers.
It goes on where it was broken off (`build/mutants/` keeps what was found) and writes this page.
`--only claim.lua` takes some files, `--jobs` more cores, `--again` tries once more what no test had
noticed. By hand it is as simple: take a line out, run the test beside it, see it fail.

- **Which tests**: those of `tests/frontier`, the ledger's and the eras' in `tests/crawlservice`,
  and `tests/node`, as far as they run the verb or function at all; first those that noticed
  something near it. So the test named is *one* that notices, not the only one. The crashes of
  `tests/process` and `tests/faults` are not among them; they would notice more, and take hours.
- **Noticed** means: the test failed twice in a row, or did not come to its end ("hangs").
- **Equivalent**: the change cannot be seen from outside; why, is said there. Most are a second line
  of defence, an optimisation, or a bound that may as well be another.
- **(not yet)**: the mutant was not tried, or only with the quick tests, which did not notice.
- Lines that are only the head or the end of what follows have no mutants, nor have comments.
"""


class Entry(NamedTuple):
    """A row of a table, read back."""

    file: str
    line: str
    noticed_by: str


def write(tried: Iterable[tuple[Mutant, Verdict | None]]) -> None:
    """The whole page anew, of all mutants of the protocol in order."""
    sections, totals, lines = [], [], 0
    for file, some in groupby(tried, key=lambda one: one[0].file):
        pairs = [*some]
        counts = Counter(_kind(*pair) for pair in pairs)
        broken = len({mutant.number for mutant, _ in pairs})
        lines += broken
        totals.append((file, broken, len(pairs), counts))
        sections.append("\n".join([f"\n## {file}\n", *_table(pairs)]))
    parts = [INTRODUCTION.format(lines=lines), *_figures(totals), *sections]
    PAGE.write_text("\n".join(parts) + "\n")


def entries(text: str) -> Iterator[Entry]:
    """The rows of the page."""
    file = ""
    for line in text.splitlines():
        if line.startswith("## "):
            file = line[3:]
        elif found := ROW.match(line):
            yield Entry(file, found[3].replace("\\|", "|"), found[6])


def problems(text: str, root: Path = CHECKOUT) -> list[str]:
    """What the page says and is not so any more."""
    wrong: list[str] = []
    sources: dict[str, str] = {}
    named: dict[str, set[str]] = {}
    for entry in entries(text):
        source = sources.setdefault(entry.file, _read(root / entry.file))
        named.setdefault(entry.file, set()).add(entry.line)
        if entry.line not in {line.strip() for line in source.splitlines()}:
            wrong.append(f"{entry.file} has no line {entry.line!r}")
        found = re.match(r"(\S+\.py)::(\w+)", entry.noticed_by)
        if found and f"def {found[2]}(" not in _read(root / "tests" / found[1]):
            wrong.append(f"tests/{found[1]} has no {found[2]}")
    scripts = {str(path.relative_to(root)) for path in root.glob("crawlframe/frontier/lua/*.lua")}
    for file in sorted(scripts | {*python.PROTOCOL}):
        if file not in named:
            wrong.append(f"{file} is not on the page")
        elif file.endswith(".lua"):
            here = named[file]
            broken = lua.executable(_read(root / file)).values()
            wrong += [f"{file}: nothing is said of {line!r}" for line in broken if line not in here]
    return wrong


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _kind(mutant: Mutant, verdict: Verdict | None) -> str:
    if verdict and verdict.test:
        return "noticed"
    if verdict and reason(mutant):
        return "equivalent"
    return UNTRIED if verdict is None or verdict.why == QUICK else "survives"


def _figures(totals: list[tuple[str, int, int, Counter[str]]]) -> Iterator[str]:
    untried = any(counts[UNTRIED] for *_, counts in totals)
    kinds = ["noticed", "equivalent", "survives"] + [UNTRIED] * untried
    yield f"| File | Lines | Mutants | {' | '.join(kinds)} |"
    yield "|---|" + "--:|" * (len(kinds) + 2)
    total: Counter[str] = Counter()
    for file, broken, mutants, counts in totals:
        total.update(counts)
        numbers = " | ".join(str(counts[kind]) for kind in kinds)
        yield f"| [{file}](#{_anchor(file)}) | {broken} | {mutants} | {numbers} |"
    lines = sum(broken for _, broken, _, _ in totals)
    numbers = " | ".join(f"**{total[kind]}**" for kind in kinds)
    yield f"| all | **{lines}** | **{total.total()}** | {numbers} |"


def _anchor(file: str) -> str:
    return re.sub(r"[^\w-]", "", file.lower())


def _table(pairs: list[tuple[Mutant, Verdict | None]]) -> Iterator[str]:
    yield "| Line | | What is done to it | Noticed by |"
    yield "|--:|---|---|---|"
    for (number, line), some in groupby(pairs, key=lambda one: (one[0].number, one[0].line)):
        rows: dict[str, list[str]] = {}
        for mutant, verdict in some:
            rows.setdefault(_noticed_by(mutant, verdict), []).append(mutant.what)
        for noticed_by, changes in rows.items():
            what = "; ".join(changes).replace("|", "\\|")
            yield f"| {number} | {_code(line)} | {what} | {noticed_by} |"


def _code(line: str) -> str:
    line = line.replace("|", "\\|")
    return f"`` {line} ``" if "`" in line else f"`{line}`"


def _noticed_by(mutant: Mutant, verdict: Verdict | None) -> str:
    kind = _kind(mutant, verdict)
    if verdict is None or kind == UNTRIED:
        return UNTRIED
    if verdict.test:
        test = verdict.test.removeprefix("tests/").replace("|", "\\|")
        return f"{test} (hangs)" if verdict.why == "hangs" else test
    return f"{EQUIVALENT}{why}" if (why := reason(mutant)) else SURVIVES
