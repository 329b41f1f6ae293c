"""``python -m tests.morning``"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

WITHIN = 60.0  # seconds within which an alert should arrive


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.morning",
        description="20 tasks run for three good nights on two nodes. Then 3 of the sites change, "
        "a task falls silent, a host refuses, a node dies, and a schedule cannot start. Each must "
        "be alerted by webhook and mail within a minute, and found and acted on in a browser "
        "within 3 clicks from the dashboard. Some three minutes. Exit code 1 if one is not.",
    )
    parser.parse_args()
    import tests.conftest  # noqa: F401  (makes Django ready)
    from tests.browser.conftest import chromium
    from tests.morning.clicks import MOST
    from tests.morning.morning import Morning, Size
    from tests.morning.run import act

    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="morning-") as directory,
        Morning(Path(directory), Size(), tell) as morning,
    ):
        tell("two nodes run")
        morning.good_nights()
        morning.bad_night()
        delays = {
            (one.name, by): morning.alerted(one, by).at - one.since
            for one in morning.troubles
            for by in ("webhook", "mail")
        }
        tell("everything is alerted")
        with chromium() as browser:
            clicks = act(browser, morning)
    print(f"\n{'trouble':28}{'webhook':>10}{'mail':>10}{'clicks':>8}")
    for one in morning.troubles:
        times = "".join(f"{delays[one.name, by]:8.1f} s" for by in ("webhook", "mail"))
        print(f"{one.name:28}{times}{clicks[one.name]:8}")
    late = [name for name, delay in delays.items() if delay > WITHIN]
    far = [name for name, count in clicks.items() if count > MOST]
    print(
        f"\nlater than {WITHIN:.0f} s: {late or 'none'}; more than {MOST} clicks: {far or 'none'}"
    )
    return 1 if late or far else 0


if __name__ == "__main__":
    sys.exit(main())
