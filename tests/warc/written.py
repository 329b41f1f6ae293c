"""A process that writes pages to a directory until it is killed: ``python -m tests.warc.written
DIRECTORY SEED``. Prints number and place of each page that is synced."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from crawlframe.warc import Original, SegmentWriter
from crawlframe.warc.records import date_of
from tests.warc.captures import AT, page


def main() -> None:
    directory, seed = Path(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(seed)
    segments = SegmentWriter(
        directory, node="node-1", worker=os.getpid(), software="test/1", max_bytes=300_000
    )
    number = seed * 100_000
    while True:
        numbers = range(number, number + chance.randrange(1, 30))
        number = numbers.stop
        captures = [page(one) for one in numbers]
        # Of each batch, one body is archived already.
        again = page(numbers[0], original=Original(captures[0].url, date_of(AT)))
        places = segments.append([*captures, again])
        segments.sync()
        lines = [
            f"{one} {' '.join(map(str, place))}\n"
            for one, place in zip(numbers, places[:-1], strict=True)
        ]
        os.write(1, "".join(lines).encode())


if __name__ == "__main__":
    main()
