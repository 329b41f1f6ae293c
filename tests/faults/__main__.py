"""``python -m tests.faults [--seed N] [--faults N] [--pages N] [--nodes N] …``"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description="Crawls a known site with several nodes while processes are killed and "
        "stopped, code changes, Redis and PostgreSQL crash, fail over and lose things, and "
        "connections break, as the seed says. Then everything is compared with what the site has. "
        "Exit code 1 when something is violated.",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=1250)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4, help="of each node")
    parser.add_argument("--partitions", type=int, default=1, help="of the frontier")
    parser.add_argument(
        "--slowest", type=float, default=0.2, help="seconds that a page takes at most"
    )
    options = parser.parse_args()
    import tests.conftest  # noqa: F401  (makes Django ready)
    from tests.faults.campaign import run

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as directory:
        campaign, violations = run(
            Path(directory),
            **vars(options),
            tell=lambda text: print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True),
        )
    print(f"\nseed {options.seed}, {len(campaign.tasks)} crawls, {campaign.eras} eras")
    for name, times in campaign.struck.most_common():
        print(f"{times:6}  {name.replace('_', ' ')}")
    print(f"{campaign.lost}\n{campaign.memory}")
    print(f"\n{sum(campaign.struck.values())} faults, {len(violations)} violations")
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
