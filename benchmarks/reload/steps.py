"""Steps: the time between a change and its first page, divided by lines of the node's log."""

from __future__ import annotations

import re
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from benchmarks.reload.changes import Change

LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) \w+ +\S+ (\S+): (.*)")
# The variable parts of a line: paths, labels of versions, numbers.
PLACE = re.compile(r"\S*/(\S+)")
LABEL = re.compile(r"\b[0-9a-f]{12}\b(?:\+[0-9a-f]{12})?|\+[0-9a-f]{12}|\d+(?:\.\d+)?")
SHARE = 0.4  # of all changes: lines found in fewer are left out


def steps_of(log: str, changes: Sequence[Change]) -> dict[str, float]:
    """Line of the log, without its variable parts -> seconds after the last write (median), in the
    order of time."""
    ahead = time.time() - time.monotonic()
    lines = []
    for match in map(LINE.fullmatch, log.splitlines()):
        if match is not None:
            at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S.%f").timestamp() - ahead
            text = LABEL.sub("…", PLACE.sub(r"\1", match[3]))
            lines.append((at, f"{match[2].removeprefix('crawlframe.')}: {text}"))
    found: defaultdict[str, list[float]] = defaultdict(list)
    for change in changes:
        seen = set()
        for at, text in lines:
            after = at - change.written
            if -0.05 < after <= change.first + 0.05 and text not in seen:
                seen.add(text)
                found[text].append(after)
    steps = {
        text: statistics.median(times)
        for text, times in found.items()
        if len(times) >= SHARE * len(changes)
    }
    return dict(sorted(steps.items(), key=lambda step: step[1]))
