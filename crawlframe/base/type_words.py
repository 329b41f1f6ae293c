"""Words for types: messages about a value that does not fit its type, in place of msgspec's."""

from __future__ import annotations

import re
from datetime import date
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from crawlframe.base.secret import Secret

PLAIN = {
    str: "text", bool: "true or false", int: "a whole number", float: "a number", dict: "a table",
    date: "a date, such as 2026-01-31", type(None): "", Secret: "text",
}  # fmt: skip
GIVEN = {"str": "text", "null": "nothing", "array": "a list", "object": "a table"}
LISTS = (list, tuple, set, frozenset)
BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_PLACED = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)
_GOT = re.compile(r", got `(\w+)`")
_STEP = re.compile(r"\[[^]]*\]|[^.\[\]]+")
_NAMED = re.compile(r"Object (missing required|contains unknown) field `([^`]+)`")


def in_words(error: msgspec.ValidationError, kind: Any) -> str:
    """The message of an error that converting a value to ``kind`` raised: the setting or argument,
    and the values that it may have. Messages of our own stay as they are."""
    return " ".join(filter(None, parted(error, kind)))


def parted(error: msgspec.ValidationError, kind: Any) -> tuple[str, str]:
    """The message in two parts: the path of the value, "" for a message of our own; and the
    rest."""
    placed = _PLACED.fullmatch(str(error))
    problem, path = (placed[1], placed[2]) if placed else (str(error), "")
    if named := _NAMED.fullmatch(problem):
        name = f"{path}.{named[2]}".removeprefix(".")
        return name, "is missing" if named[1] == "missing required" else "does not exist"
    if not placed or not problem.startswith(("Expected `", "Invalid ")):
        return "", problem
    if (found := _at(kind, path)) is None:
        return path, problem
    got = _GOT.search(problem)
    other = f", not {GIVEN[got[1]]}" if got and got[1] in GIVEN else ""
    return path.replace("[...]", ""), f"must be {wanted(found)}{other}"


def wanted(kind: Any) -> str:
    """The values of a type: ``a whole number, at least 0``."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        metas = [one for one in parts[1:] if isinstance(one, msgspec.Meta)]
        bounds = [(words, getattr(meta, key)) for meta in metas for key, words in BOUNDS.items()]
        told = " and ".join(f"{words} {bound:,}" for words, bound in bounds if bound is not None)
        return ", ".join(filter(None, (wanted(parts[0]), told)))
    if origin is Literal:
        return f"{'one of ' * (len(parts) > 1)}{', '.join(map(str, filter(None, parts)))}"
    if origin in (Union, UnionType):
        return " or ".join(filter(None, map(wanted, parts)))
    if origin in LISTS:
        return f"a list, each part {wanted(parts[0])}"
    plain = origin or kind
    return PLAIN.get(
        plain, "a table" if isinstance(plain, type(msgspec.Struct)) else plain.__name__
    )


def _at(kind: Any, path: str) -> Any:
    """The type at a path, such as ``ip.delay`` or ``headers[...]``; None if it is unknown, as in a
    dataclass of the author."""
    for step in _STEP.findall(path):
        kinds = [kind]
        for one in kinds:  # which grows
            kinds += get_args(one) if get_origin(one) in (Annotated, Union, UnionType) else ()
        if step.startswith("["):
            found = next((one for one in kinds if get_origin(one) in (*LISTS, dict)), None)
            kind = found and get_args(found)[get_origin(found) is dict]
        else:
            structs = [one for one in kinds if isinstance(one, type(msgspec.Struct))]
            fields = [field for one in structs for field in msgspec.structs.fields(one)]
            kind = next((field.type for field in fields if field.encode_name == step), None)
            configs = [one.__struct_config__ for one in structs]
            if tags := tuple(one.tag for one in configs if one.tag_field == step):
                kind = Literal[tags]
    return kind
