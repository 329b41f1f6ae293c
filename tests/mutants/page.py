"""Page: build/mutants/report.md, which lists for every line of the protocol how it was broken and
which test noticed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from tests.mutants.arena import CHECKOUT
from tests.mutants.equivalent import reason
from tests.mutants.mutant import Mutant
from tests.mutants.verdicts import QUICK, Verdict

PAGE = CHECKOUT / "build" / "mutants" / "report.md"
SURVIVES, UNTRIED, EQUIVALENT = "**nothing**", "(not yet)", "equivalent: "
INTRODUCTION = """\
# Mutants: the protocol with one line broken

The promise of Crawlframe (fetch at least once, effect exactly once) is kept by some {lines} lines
of Lua and Python. Each of them is broken here, one at a time: it is removed, a condition always
or never holds, a comparison or a sign is changed, an operand is left out. Then the tests run until
one fails. If no test notices a change, nobody knows what that line is for.

`python -m tests.mutants` does this in copies of the checkout, with real Redis and database servers.
It resumes where it was interrupted (`build/mutants/` keeps the results) and writes this page.
`--only complete.lua` limits it to some files, `--tests tests/frontier/test_claim.py` to some tests,
`--each 10` to the likeliest tests of each mutant, 10 seconds of them. `--minutes 5` ends it early,
`--jobs` uses more cores, `--again` repeats the mutants that no test noticed, and tries those that
none can notice.

- **Which tests**: those of `tests/frontier`, the ledger's and the eras' in `tests/crawlservice`,
  and `tests/node`, as far as they run the line at all; first those that noticed something near it.
  So the test named is *one* that notices, not the only one. The crashes of `tests/process` and
  `tests/faults` are not among them; they would notice more, and take hours.
- **Noticed** means: the test failed, or took ten times as long as on the sound code ("hangs"), and
  right afterwards it passed on the sound code, in a tenth of the time that it was given. Outside of
  `tests/frontier` it also had to fail once more. A test that a busy machine slows down fails on the
  sound code too, and then notices nothing.
- **Loops**: a script of a mutant fails after a million turns of its loops. On the sound scripts all
  tests do with a tenth of that, or they are left out.
- **Equivalent**: the change cannot be seen from outside, for the reason given. Most are a second
  line of defence, an optimisation, or a bound with an arbitrary value.
- **(not yet)**: the mutant was not tried, or only with some of the tests, which did not notice.
- Comments and lines that only begin or end a block have no mutants.
"""


def write(tried: Iterable[tuple[Mutant, Verdict | None]]) -> None:
    """Writes the whole page, with all mutants of the protocol in order."""
    sections, totals, lines = [], [], 0
    for file, some in groupby(tried, key=lambda one: one[0].file):
        pairs = [*some]
        counts = Counter(_kind(*pair) for pair in pairs)
        broken = len({mutant.number for mutant, _ in pairs})
        lines += broken
        totals.append((file, broken, len(pairs), counts))
        sections.append("\n".join([f"\n## {file}\n", *_table(pairs)]))
    parts = [INTRODUCTION.format(lines=lines), *_figures(totals, "File", _linked), *sections]
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join(parts) + "\n")


def summary(tried: Iterable[tuple[Mutant, Verdict | None]]) -> str:
    """A table of scripts and Python, without files."""
    parts: dict[str, list[tuple[Mutant, Verdict | None]]] = {"Lua scripts": [], "Python": []}
    for mutant, verdict in tried:
        parts["Lua scripts" if mutant.file.endswith(".lua") else "Python"].append((mutant, verdict))
    totals = []
    for name, pairs in parts.items():
        lines = len({(mutant.file, mutant.number) for mutant, _ in pairs})
        totals.append((name, lines, len(pairs), Counter(_kind(*pair) for pair in pairs)))
    return "\n".join(_figures(totals, "", str))


def _kind(mutant: Mutant, verdict: Verdict | None) -> str:
    if verdict and verdict.test:
        return "noticed"
    if reason(mutant):
        return "equivalent"
    return UNTRIED if verdict is None or verdict.why == QUICK else "survives"


def _figures(
    totals: list[tuple[str, int, int, Counter[str]]], heading: str, link: Callable[[str], str]
) -> Iterator[str]:
    untried = any(counts[UNTRIED] for *_, counts in totals)
    kinds = ["noticed", "equivalent", "survives"] + [UNTRIED] * untried
    yield f"| {heading} | Lines | Mutants | {' | '.join(kinds)} |"
    yield "|---|" + "--:|" * (len(kinds) + 2)
    total: Counter[str] = Counter()
    for file, broken, mutants, counts in totals:
        total.update(counts)
        numbers = " | ".join(str(counts[kind]) for kind in kinds)
        yield f"| {link(file)} | {broken} | {mutants} | {numbers} |"
    lines = sum(broken for _, broken, _, _ in totals)
    numbers = " | ".join(f"**{total[kind]}**" for kind in kinds)
    yield f"| all | **{lines}** | **{total.total()}** | {numbers} |"


def _linked(file: str) -> str:
    anchor = re.sub(r"[^\w-]", "", file.lower())
    return f"[{file}](#{anchor})"


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
    if verdict and verdict.test:
        test = verdict.test.removeprefix("tests/").replace("|", "\\|")
        return f"{test} (hangs)" if verdict.why == "hangs" else test
    kind = _kind(mutant, verdict)
    return {"equivalent": f"{EQUIVALENT}{reason(mutant)}", "survives": SURVIVES}.get(kind, UNTRIED)
