"""Runs pytest in another world: ``python -m tests.worlds background -k ctrl_c``; without a name in
all of them, one after the other."""

from __future__ import annotations

import sys

from tests.worlds import WORLDS, run


def main(arguments: list[str]) -> int:
    names = [arguments.pop(0)] if arguments and not arguments[0].startswith("-") else [*WORLDS]
    unknown = [name for name in names if name not in WORLDS]
    if unknown:
        print(f"error: no world {unknown[0]!r}; there are {', '.join(WORLDS)}", file=sys.stderr)
        return 2
    failed = []
    for name in names:
        print(f"-- {name}", flush=True)
        if run(WORLDS[name], arguments):
            failed.append(name)
    print(f"failed in: {', '.join(failed)}" if failed else f"passed in: {', '.join(names)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
