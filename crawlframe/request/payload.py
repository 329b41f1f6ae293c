"""Payload: the encoding of the values of cb_kwargs and meta. Types that msgpack does not have are
sent as its extension types: Python's own types, and instances of the authors' classes. The package
msgpack asks for each of these (``strict_types``); msgspec would write tuples and sets as lists and
dates as text without asking, and refuse integers of more than 64 bits.

A record cannot choose code: an instance is made only of a class that this process has imported
and that is a dataclass, attrs or pydantic class, named tuple, enum or Scrapy item. Its fields are
set as they were. The only code of the class that runs is ``__new__``, default factories,
pydantic's ``__setstate__``, ``__hash__`` of set elements and dict keys, and ``__init__`` of a
Scrapy item."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import lru_cache
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgpack

from crawlframe.errors import MissingCode

# The meaning of these numbers never changes: Redis and the ledger keep values written with them.
TUPLE, SET, FROZENSET, DATETIME, DATE, TIME, TIMEDELTA, DECIMAL, UUID_, INTEGER = range(1, 11)
INSTANCE, ENUM = 11, 12

TAKEN = (
    "None, bool, int, float, Decimal, str, bytes, dates and times, UUID, enums, list, tuple, dict, "
    "set, and dataclasses, attrs and pydantic objects"
)


def pack(value: Any) -> tuple[bytes, bool]:
    """The value as msgpack, and whether it has extension types.

    Raises TypeError or ValueError for a value that cannot be encoded."""
    try:
        return msgpack.packb(value, strict_types=True), False
    except (TypeError, OverflowError):
        packer = _Packer()
        return packer.pack(value), packer.extended


def unpack(packed: bytes) -> Any:
    """The value encoded by ``pack``. Raises MissingCode when a class is missing or has changed,
    ValueError, TypeError or msgpack's errors for invalid data, and whatever ``__hash__`` of an
    author's class raises."""
    return msgpack.unpackb(packed, strict_map_key=False, ext_hook=_read)


def first_unfit(value: Any, path: str, around: tuple[int, ...] = ()) -> str:
    """The path of the innermost part that ``pack`` refuses, and why; "" when there is none.
    ``around``: ids of the containers that it is in."""
    if id(value) in around or len(path) > 500:
        return f"{path[:100]}… contains itself, or is nested too deeply"
    parts: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        parts = [(f"{path}[{key!r}]", part) for key, part in value.items()]
        parts += [(f"the key {key!r} of {path}", key) for key in value]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = [(f"{path}[{n}]", part) for n, part in enumerate(value)]
    for place, part in parts:
        try:
            pack(part)
        except (TypeError, ValueError, RecursionError):
            return first_unfit(part, place, (*around, id(value)))
    try:
        pack(value)
    except (TypeError, ValueError, RecursionError) as error:
        return f"{path}: {error}"
    return ""


class _Packer:
    def __init__(self) -> None:
        self.extended = False

    def pack(self, value: Any) -> bytes:
        packed: bytes = msgpack.packb(value, default=self._extend, strict_types=True)
        return packed

    def _extend(self, value: Any) -> Any:
        """An extension type, or the plain value of a subclass of str, int and the like."""
        extended = _instance_parts(value) or _parts(value, type(value))
        if extended is None:
            for base, plain in _PLAIN.items():
                if isinstance(value, base):
                    return plain(value)
            bases = (_parts(value, base) for base in type(value).__mro__)
            extended = next(filter(None, bases), None)
        if extended is None:
            raise TypeError(f"{type(value).__qualname__} cannot travel; these can: {TAKEN}")
        self.extended = True
        code, parts = extended
        return msgpack.ExtType(code, self.pack(parts))


def _instance_parts(value: Any) -> tuple[int, Any] | None:
    """Type and content for an enum's member or an instance of the authors' classes."""
    kind: Any = type(value)
    if isinstance(value, Enum):
        which = value.value if isinstance(value, Flag) else value.name
        return ENUM, [*_name_of(kind), which]
    fields = _fields(kind)
    return None if fields is None else (INSTANCE, [*_name_of(kind), _state(value, fields)])


def _parts(value: Any, kind: type) -> tuple[int, Any] | None:
    """Type and content for one of Python's own types."""
    code, write = _WRITERS.get(kind, (0, None))
    return (code, write(value)) if write else None


def _read(code: int, data: bytes) -> Any:
    if code not in _READERS:
        raise MissingCode(f"cb_kwargs or meta hold a value of type {code}, of a newer Crawlframe")
    return _READERS[code](unpack(data))


# -- Python's own types ------------------------------------------------------------------------


def _clock_parts(moment: datetime | time) -> list[Any]:
    # Other zones are sent as their offset from UTC.
    zone = moment.tzinfo.key if isinstance(moment.tzinfo, ZoneInfo) else None
    text = (moment.replace(tzinfo=None) if zone else moment).isoformat()
    return [text, zone, moment.fold]


def _clock(kind: type[datetime] | type[time]) -> Callable[[list[Any]], datetime | time]:
    def read(parts: list[Any]) -> datetime | time:
        text, zone, fold = parts
        moment = kind.fromisoformat(text).replace(fold=fold)
        try:
            return moment.replace(tzinfo=ZoneInfo(zone)) if zone else moment
        except ZoneInfoNotFoundError:
            raise MissingCode(
                f"the time zone {zone} is not on this machine; install tzdata"
            ) from None

    return read


_WRITERS: dict[type, tuple[int, Callable[[Any], Any]]] = {
    tuple: (TUPLE, list),
    set: (SET, list),
    frozenset: (FROZENSET, list),
    datetime: (DATETIME, _clock_parts),
    date: (DATE, date.isoformat),
    time: (TIME, _clock_parts),
    timedelta: (TIMEDELTA, lambda span: [span.days, span.seconds, span.microseconds]),
    Decimal: (DECIMAL, str),
    UUID: (UUID_, lambda uuid: uuid.bytes),
    # For integers of more than 64 bits.
    int: (INTEGER, lambda n: n.to_bytes(n.bit_length() // 8 + 1, "big", signed=True)),
}
# Subclasses of these are sent as their base class. str.__str__ gives an exact str.
_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int,
    float: float,
    bytes: bytes,
    dict: dict,
    list: list,
}


# -- instances ---------------------------------------------------------------------------------

Default = Callable[[Any], Any]  # called with the object that is being made


@lru_cache(maxsize=1024)
def _fields(kind: Any) -> dict[str, Default | None] | None:
    """The fields of a class with the function that makes the default of each, or None where it must
    be given. None for a class whose instances cannot be encoded."""
    if hasattr(kind, "__pydantic_fields__"):
        return {name: _pydantic_default(field) for name, field in kind.__pydantic_fields__.items()}
    if dataclasses.is_dataclass(kind):
        return {field.name: _dataclass_default(field) for field in dataclasses.fields(kind)}
    if hasattr(kind, "__attrs_attrs__"):
        return {field.name: _attrs_default(field) for field in kind.__attrs_attrs__}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        defaults = kind._field_defaults
        return {name: _constant(defaults[name]) if name in defaults else None
                for name in kind._fields}  # fmt: skip
    if _is_scrapy_item(kind):
        return dict.fromkeys(kind.fields)
    return None


def _constant(value: Any) -> Default:
    return lambda made: value


def _dataclass_default(field: dataclasses.Field[Any]) -> Default | None:
    if field.default is not dataclasses.MISSING:
        return _constant(field.default)
    factory = field.default_factory
    return None if factory is dataclasses.MISSING else lambda made: factory()


def _attrs_default(field: Any) -> Default | None:
    import attrs

    default = field.default
    if default is attrs.NOTHING:
        return None
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return lambda made: default.factory(made) if default.takes_self else default.factory()
    return _constant(default)


def _pydantic_default(field: Any) -> Default | None:
    if field.is_required():
        return None
    return lambda made: field.get_default(call_default_factory=True, validated_data={})


def _is_scrapy_item(kind: type) -> bool:
    return any(f"{base.__module__}.{base.__name__}" == "scrapy.item.Item" for base in kind.__mro__)


def _name_of(kind: type) -> list[str]:
    """Module and name that identify a class to other processes. Raises TypeError."""
    if _find(kind.__module__, kind.__qualname__) is not kind:
        raise TypeError(
            f"the class {kind.__module__}.{kind.__qualname__} is not found under this name; "
            "define it at the top of a module"
        )
    return [kind.__module__, kind.__qualname__]


def _find(module: str, qualname: str) -> type | None:
    """Searches only imported modules: a record must not import or run anything."""
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) else None


def _class(module: str, qualname: str) -> type:
    found = _find(module, qualname)
    if found is None:
        raise MissingCode(
            f"the class {module}.{qualname} of a value in cb_kwargs or meta is missing"
        )
    return found


def _state(value: Any, fields: Mapping[str, Any]) -> list[Any]:
    kind = type(value)
    if hasattr(kind, "__pydantic_root_model__"):  # a BaseModel
        state = value.__getstate__()
        values = {name: part for name, part in state["__dict__"].items() if name in fields}
        given = sorted(state["__pydantic_fields_set__"])
        return [values, state["__pydantic_extra__"], given, state["__pydantic_private__"]]
    if _is_scrapy_item(kind):
        return [dict(value)]
    try:
        return [{name: getattr(value, name) for name in fields}]
    except AttributeError as error:
        raise TypeError(f"{kind.__qualname__} cannot travel: {error}") from None


def _instance(parts: list[Any]) -> Any:
    module, qualname, (values, *rest) = parts
    kind = _class(module, qualname)
    fields = _fields(kind)
    name = f"{module}.{qualname}"
    if fields is None:
        raise MissingCode(f"{name} is not a dataclass, attrs or pydantic class any more")
    if gone := values.keys() - fields.keys():
        raise MissingCode(
            f"{name} has no field {min(gone)!r}, which a value in cb_kwargs or meta has"
        )
    try:
        if _is_scrapy_item(kind):
            return kind(values)
        made = tuple.__new__(kind, ()) if issubclass(kind, tuple) else kind.__new__(kind)
        for field, default in fields.items():
            if field not in values:
                if default is None:
                    raise MissingCode(
                        f"{name} requires the field {field!r}, which a value in cb_kwargs or meta "
                        "does not have"
                    )
                values[field] = default(made)
        return _filled(kind, made, {field: values[field] for field in fields}, rest)
    except MissingCode:
        raise
    except Exception as error:  # the author's constructors and factories run here
        raise MissingCode(
            f"{name} cannot be made of a value in cb_kwargs or meta: {error}"
        ) from error


def _filled(kind: type, made: Any, values: dict[str, Any], rest: list[Any]) -> Any:
    if rest:
        extra, given, private = rest
        made.__setstate__(
            {
                "__dict__": values,
                "__pydantic_extra__": extra,
                "__pydantic_fields_set__": set(given),
                "__pydantic_private__": private,
            }
        )
        return made
    if issubclass(kind, tuple):
        return tuple.__new__(kind, values.values())
    for field, value in values.items():
        object.__setattr__(made, field, value)  # also sets fields of frozen classes
    return made


def _member(parts: list[Any]) -> Any:
    module, qualname, which = parts
    kind = _class(module, qualname)
    try:
        if issubclass(kind, Flag):
            return kind(which)
        if issubclass(kind, Enum):
            return kind[which]
    except (KeyError, ValueError):
        pass
    raise MissingCode(f"{module}.{qualname} has no member {which!r}, which cb_kwargs or meta hold")


_READERS: dict[int, Callable[[Any], Any]] = {
    TUPLE: tuple,
    SET: set,
    FROZENSET: frozenset,
    DATETIME: _clock(datetime),
    DATE: date.fromisoformat,
    TIME: _clock(time),
    TIMEDELTA: lambda parts: timedelta(*parts),
    DECIMAL: Decimal,
    UUID_: lambda data: UUID(bytes=data),
    INTEGER: lambda data: int.from_bytes(data, "big", signed=True),
    INSTANCE: _instance,
    ENUM: _member,
}
