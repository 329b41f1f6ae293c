"""Lines: where in the text of a TOML or JSON file a key is."""

from __future__ import annotations

import re
from typing import Any

Path = tuple[str | int, ...]

_HEADER = re.compile(r"\s*\[(\[)?(.+?)\]?\]\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,\n]')


def line_of(path: Path, lines: dict[Path, int]) -> int:
    """The line of a path, or of the nearest part around it; 1 if none is known."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def lines_of(text: str, kind: str) -> dict[Path, int]:
    """The lines, counted from 1, of the keys and elements of a file; ``kind``: "toml" or
    "json"."""
    return _of_json(text) if kind == "json" else _of_toml(text)


def _of_toml(text: str) -> dict[Path, int]:
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}  # of the tables of each array
    table: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = ()
            keys = _keys(header[2])
            for place, key in enumerate(keys):
                table += (key,)
                if table in counts and not (header[1] and place == len(keys) - 1):
                    table += (counts[table] - 1,)
            if header[1]:
                counts[table] = counts.get(table, 0) + 1
                table += (counts[table] - 1,)
            lines.setdefault(table, number)
        elif pair := _KEY.match(line):
            path = table
            for part in _keys(pair[1]):
                path += (part,)
                lines.setdefault(path, number)
    return lines


def _keys(dotted: str) -> list[str]:
    """The parts of a dotted key."""
    import tomllib

    keys = []
    try:
        found: Any = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return []
    while isinstance(found, dict):
        key, found = next(iter(found.items()))
        keys.append(key)
    return keys


def _of_json(text: str) -> dict[Path, int]:
    lines: dict[Path, int] = {}
    inside: list[str | int | None] = []  # of each object the last key, of each array the place
    number, word = 1, ""
    for token in _TOKEN.findall(text):
        match token:
            case "\n":
                number += 1
                continue
            case "{":
                inside.append(None)
                continue
            case "[":
                inside.append(0)
            case "}" | "]":
                inside = inside[:-1]
                continue
            case ":" if inside:
                inside[-1] = word
            case "," if inside and isinstance(inside[-1], int):
                inside[-1] += 1
            case _:
                word = token[1:-1]
                continue
        lines.setdefault(tuple(part for part in inside if part is not None), number)
    return lines
