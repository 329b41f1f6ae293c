"""Header lines of responses, as bytes: their names and values."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1024)  # servers send most lines again and again
def header_of(line: bytes) -> tuple[str, str] | None:
    """Name and value of a header line, in Latin-1, as browsers read it; None if it is none."""
    if line[:1] in (b" ", b"\t"):
        return None
    name, colon, value = line.decode("latin-1").partition(":")
    name = name.rstrip(" \t")
    return (name, value.strip(" \t\r\n")) if colon and name else None
