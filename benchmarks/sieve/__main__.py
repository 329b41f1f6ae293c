"""``python -m benchmarks.sieve [DIRECTORY …]``"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.lab.chart import Line, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.realweb.__main__ import DOCUMENTATION
from benchmarks.sieve.policies import POLICIES
from benchmarks.sieve.streams import links_of

SHARES = (0.02, 0.1, 0.5)  # of the different links, for which there is room


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sieve",
        description="A worker remembers links that it has met, so that they need not be looked up. "
        "Compares which ones it should keep when there is no room for all: the share of the links "
        "of real pages that each policy knows. Takes some minutes.",
    )
    parser.add_argument("directory", nargs="*", type=Path, help="three of Debian's manuals")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    directories = options.directory or [Path(name) for name in DOCUMENTATION]
    if missing := [path for path in directories if not path.is_dir()]:
        parser.error(f"no such directory: {', '.join(map(str, missing))}; install the package")
    return run("sieve", lambda work: measure(directories, options.output))


def measure(directories: list[Path], output: Path | None) -> int:
    figures: dict[str, dict[str, Any]] = {}
    panels = []
    for path in directories:
        say("sieve", f"links of {path}")
        stream = links_of(path)
        different = len(set(stream))
        most = (len(stream) - different) / len(stream)
        sizes = [max(2, int(share * different)) for share in SHARES]
        rates: dict[str, list[float]] = {}
        for name, policy in POLICIES.items():
            rates[name] = [policy(stream, size) / len(stream) for size in sizes]
            say("sieve", f"{name}: {', '.join(f'{rate:.3f}' for rate in rates[name])}")
        title = path.parent.name if path.name == "html" else path.name
        show(
            f"{title}: {len(stream):,} links, {different:,} different; keeping all: {most:.3f}",
            [f"{size:,} ({share:.0%})" for size, share in zip(sizes, SHARES, strict=True)],
            [[name, *(f"{rate:.3f}" for rate in found)] for name, found in rates.items()],
            "Share of the links that were known, with room for so many.",
        )
        figures[title] = {"links": len(stream), "different": different, "rates": rates}
        lines = [Line(n, [*zip(SHARES, found, strict=True)]) for n, found in rates.items()]
        panels.append(Panel(title, "room, by the different links", lines=lines, y="known"))
    keep("sieve", figures, "Links that are known", panels, output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
