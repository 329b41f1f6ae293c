"""``python -m tests.mutants --help``"""

from __future__ import annotations

import argparse
import math
import sys
from functools import partial


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Breaks the protocol, one line at a time, and finds which test notices. "
        "Resumes where it was interrupted. At the end it writes build/mutants/report.md. Exit "
        "code 1 when something was not noticed.",
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE", help="as in complete.lua")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--again", action="store_true", help="also what no test has noticed, or can"
    )
    parser.add_argument("--quick", action="store_true", help="without the tests that take long")
    parser.add_argument("--tests", nargs="+", default=[], metavar="FILE", help="no others")
    parser.add_argument(
        "--each", type=float, default=math.inf, metavar="SECONDS", help="of tests for one mutant"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="ends after so many")
    parser.add_argument("--page", action="store_true", help="only write the report")
    options = parser.parse_args()
    import tests.conftest  # noqa: F401  (makes Django ready)
    from tests.mutants import page
    from tests.mutants.arena import CHECKOUT
    from tests.mutants.campaign import Campaign
    from tests.mutants.equivalent import reason
    from tests.mutants.every import mutants
    from tests.mutants.verdicts import QUICK, Verdicts

    verdicts = Verdicts(CHECKOUT / "build" / "mutants")

    few = options.quick or options.tests or options.each < math.inf
    if not options.page:
        todo = []
        for mutant in mutants(options.only):
            verdict = verdicts.of(mutant)
            if verdict and verdict.test:
                continue
            tried = verdict is not None and (few or verdict.why != QUICK)
            if options.again or not (tried or reason(mutant)):
                todo.append(mutant)
        campaign = Campaign(
            todo,
            verdicts,
            partial(print, flush=True),
            quick=options.quick,
            suites=options.tests,
            each=options.each,
            seconds=60 * options.minutes,
        )
        if untried := campaign.run(options.jobs):
            print(f"ended early: {untried} are left; the same command goes on")
            return 1
    everything = [(mutant, verdicts.of(mutant)) for mutant in mutants([])]
    page.write(everything)
    print(f"{page.summary(everything)}\n\nEach line is in {page.PAGE}")
    left = [m for m, verdict in everything if not (verdict and (verdict.test or reason(m)))]
    for mutant in left:
        print(f"{'not noticed' if verdicts.of(mutant) else 'not tried'}: {mutant}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
