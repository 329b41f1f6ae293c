"""``python -m tests.mutants --help``"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.mutants.mutant import Mutant
    from tests.mutants.verdicts import Verdicts


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Breaks the scripts of the frontier, one line at a time, and finds which test "
        "notices. Resumes where it was interrupted. At the end it writes build/mutants/report.txt. "
        "Exit code 1 when something was not noticed.",
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE", help="as in complete.lua")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--again", action="store_true", help="also what no test has noticed, or can"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="ends after so many")
    options = parser.parse_args()
    import tests.conftest  # noqa: F401  (makes Django ready)
    from tests.mutants.arena import CHECKOUT
    from tests.mutants.campaign import Campaign
    from tests.mutants.equivalent import reason
    from tests.mutants.every import mutants
    from tests.mutants.verdicts import Verdicts

    directory = CHECKOUT / "build" / "mutants"
    verdicts = Verdicts(directory)
    todo = []
    for mutant in mutants(options.only):
        verdict = verdicts.of(mutant)
        noticed = verdict is not None and verdict.test
        if not noticed and (options.again or not (verdict or reason(mutant))):
            todo.append(mutant)
    campaign = Campaign(todo, verdicts, partial(print, flush=True), 60 * options.minutes)
    if untried := campaign.run(options.jobs):
        print(f"ended early: {untried} are left; the same command goes on")
        return 1
    everything = [*mutants([])]
    lines = report(everything, verdicts)
    (directory / "report.txt").write_text("\n".join(lines) + "\n")
    left = [line for line in lines if line.endswith((NOTHING, UNTRIED))]
    print("\n".join(left))
    print(f"{len(everything)} mutants, {len(left)} not noticed; all are in {directory}/report.txt")
    return 1 if left else 0


NOTHING, UNTRIED = "nothing", "(not tried)"


def report(mutants: Sequence[Mutant], verdicts: Verdicts) -> list[str]:
    """A line for each mutant: who noticed it, or why nobody can."""
    from tests.mutants.equivalent import reason

    lines = []
    for mutant in mutants:
        verdict, why = verdicts.of(mutant), reason(mutant)
        missed = f"equivalent: {why}" if why else UNTRIED if verdict is None else NOTHING
        lines.append(f"{mutant} | {(verdict and verdict.test) or missed}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
