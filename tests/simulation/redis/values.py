"""Data types of the store, and numbers in the form that Redis reads and writes."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

INT64 = 1 << 63
EXACT = 1 << 62  # scores up to here are written as integers
WILD = {b"*": b".*", b"?": b"."}
MAX_ZEROS = 7  # decimal places that Redis adds to the digits of a double without an exponent


class ReplyError(Exception):
    """Error reply of the server, in the text that follows the ``-`` on the wire."""


SYNTAX = ReplyError("ERR syntax error")


class Hash(dict[bytes, bytes]):
    """Hash: field -> value."""


class Set(dict[bytes, None]):
    """Set; a dict, because its order does not depend on PYTHONHASHSEED."""


class List(deque[bytes]):
    """List, fast at both ends."""


class SortedSet(dict[bytes, float]):
    """Sorted set: member -> score, and ``order``, sorted pairs of score and member."""

    def __init__(self, scores: Mapping[bytes, float] | None = None) -> None:
        super().__init__(scores or {})
        self.order = sorted((score, member) for member, score in self.items())

    def put(self, member: bytes, score: float) -> None:
        old = self.get(member)
        if old == score:
            return
        if old is not None:
            del self.order[bisect_left(self.order, (old, member))]
        self[member] = score
        insort(self.order, (score, member))

    def drop(self, member: bytes) -> bool:
        score = self.pop(member, None)
        if score is None:
            return False
        del self.order[bisect_left(self.order, (score, member))]
        return True


def text(argument: Any) -> bytes:
    """An argument as bytes, converted as by redis-py."""
    if argument.__class__ is bytes:
        return argument
    if isinstance(argument, str):
        return argument.encode()
    if isinstance(argument, bool) or not isinstance(argument, int | float):
        raise TypeError(f"an argument of a command is a {type(argument).__name__}")
    return repr(argument).encode()


@lru_cache(maxsize=10_000)  # scripts repeat most of their numbers
def integer(argument: bytes, error: str = "value is not an integer or out of range") -> int:
    try:
        value = int(argument)
    except ValueError:
        raise ReplyError(f"ERR {error}") from None
    if b"%d" % value != argument or not -INT64 <= value < INT64:
        raise ReplyError(f"ERR {error}")
    return value


@lru_cache(maxsize=10_000)
def double(argument: bytes, error: str = "value is not a valid float") -> float:
    try:
        value = float(argument)
    except ValueError:
        raise ReplyError(f"ERR {error}") from None
    if math.isnan(value) or b"_" in argument or argument != argument.strip():
        raise ReplyError(f"ERR {error}")
    return value


def double_text(score: float) -> bytes:
    """A double as Redis writes it."""
    if -EXACT <= score <= EXACT and score == (whole := int(score)):
        return b"-0" if whole == 0 and math.copysign(1, score) < 0 else b"%d" % whole
    if math.isinf(score):
        return b"inf" if score > 0 else b"-inf"
    sign, digits, shift = Decimal(repr(score)).normalize().as_tuple()
    return b"-" * sign + _decimal("".join(map(str, digits)), int(shift)).encode()


def _decimal(digits: str, shift: int) -> str:
    """``digits`` times ten to the power of ``shift``, in the notation of Redis's fpconv."""
    exponent = shift + len(digits) - 1
    if shift >= 0 and abs(exponent) < len(digits) + MAX_ZEROS:
        return digits + "0" * shift
    if shift < 0 and (shift > -MAX_ZEROS or abs(exponent) < 4):
        point = len(digits) + shift
        if point <= 0:
            return "0." + "0" * -point + digits
        return digits[:point] + "." + digits[point:]
    rest = "." + digits[1:] if len(digits) > 1 else ""
    return f"{digits[0]}{rest}e{exponent:+d}"


@lru_cache(maxsize=1000)
def pattern(glob: bytes) -> re.Pattern[bytes]:
    """A pattern of Redis as a regular expression."""
    parts, at = [], 0
    while at < len(glob):
        sign = glob[at : at + 1]
        at += 1
        if sign in WILD:
            parts.append(WILD[sign])
        elif sign == b"[" and (end := glob.find(b"]", at + 1)) > 0:
            parts.append(b"[" + glob[at:end].replace(b"[", rb"\[") + b"]")
            at = end + 1
        else:
            if sign == b"\\" and at < len(glob):
                sign = glob[at : at + 1]
                at += 1
            parts.append(re.escape(sign))
    return re.compile(b"".join(parts), re.DOTALL)
