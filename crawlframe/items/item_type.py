"""ItemType: the class of a spider's items, and the check that each item fits."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec

from crawlframe.base.stats import MAX_REASONS
from crawlframe.errors import UnfitItem
from crawlframe.items.encode import as_dict
from crawlframe.response.response import Response

_KINDS = "a dataclass, or a class of attrs, pydantic or msgspec"
_NAMED = re.compile(r"Object (missing required|contains unknown) field `([^`]+)`")
_PLACED = re.compile(r"(?s)(.*) - at `\$\.?(.*)`")
_CHOICE = re.compile(r"(?s)(Invalid enum value) .*")  # reasons are for kinds, not for each value
_INDEX = re.compile(r"\[\d+\]")


class Misfit(Exception):
    """A field of an item does not fit its class."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")


class ItemType:
    """The first pipeline of a spider that names the class of its items: it returns an object of
    that class, with coerced values, or drops the item. The first one of each reason is logged."""

    def __init__(self, kind: type) -> None:
        """``kind`` is one that ``misuse_of`` accepts."""
        self._kind = kind
        self._check = _pydantic_check(kind) if _is_pydantic(kind) else _typed_check(kind)
        self._reasons: set[str] = set()
        self._warn: Callable[..., None] | None = None

    def open(self, spider: Any) -> None:
        self._warn = spider.log.warning

    def process_item(self, item: Any, response: Response | None) -> Any:
        """Returns the object. Raises UnfitItem with the field and its problem."""
        try:
            return self._check(item)
        except Misfit as misfit:
            reason = str(misfit)
        except Exception as error:  # validators, converters and constructors may raise anything
            reason = f"{self._kind.__name__}: {type(error).__name__}: {error}"
        if self._warn and reason not in self._reasons and len(self._reasons) < MAX_REASONS:
            self._reasons.add(reason)
            self._warn("dropped, like all that follow for %s: %.500r", reason, item)
        raise UnfitItem(reason)


def required_fields(kind: type) -> list[str]:
    """The fields that every item must have, and that must not be None."""
    if _is_pydantic(kind):
        found = getattr(kind, "__pydantic_fields__", {})
        hinted = [(name, one.annotation) for name, one in found.items() if one.is_required()]
    else:
        hinted = [(one.name, one.hint) for one in _fields_of(kind) if one.required]
    return [name for name, hint in hinted if type(None) not in get_args(hint)]


def misuse_of(kind: Any) -> str:
    """Why a type cannot be the class of the items; "" if it can."""
    if not isinstance(kind, type):
        return f"item must be the class of the items, {_KINDS}, not {kind!r:.80}"
    if _is_pydantic(kind):
        return ""
    try:
        fields = _fields_of(kind)
        for shadow in (_given(kind, fields), _made(kind, fields)):
            msgspec.inspect.type_info(shadow)
    except Exception as error:  # hints may name anything, and evaluating them raise anything
        return f"item: the types of {kind.__name__} cannot be checked: {error}"
    return "" if fields else f"item must be {_KINDS}; {kind.__name__} is none, or has no fields"


# -- pydantic -------------------------------------------------------------------------------------


def _is_pydantic(kind: type) -> bool:
    return hasattr(kind, "__pydantic_validator__")


def _pydantic_check(kind: type) -> Callable[[Any], Any]:
    """An object of the class was checked when it was made."""
    from pydantic import TypeAdapter, ValidationError

    validate = TypeAdapter[Any](kind).validate_python

    def check(item: Any) -> Any:
        if isinstance(item, kind):
            return item
        try:
            return validate(as_dict(item))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            path = "".join("[]" if isinstance(at, int) else f".{at}" for at in first["loc"])
            raise Misfit(path.removeprefix(".") or kind.__name__, first["msg"]) from None

    return check


# -- classes whose constructors check no types ----------------------------------------------------


class ItemField(NamedTuple):
    """A field of a class. ``parameter``: of the constructor, "" if it takes none."""

    name: str
    hint: Any
    required: bool
    parameter: str
    converted: bool = False  # by a function of the author's


def _typed_check(kind: type) -> Callable[[Any], Any]:
    """Returns the check of a class. An object of the class is copied, with its values coerced; the
    constructor makes one from anything else, so that the author's code in it runs."""
    fields = _fields_of(kind)
    given, made = _given(kind, fields), _made(kind, fields)
    parameters = {one.name: one.parameter for one in fields}
    converts = any(one.converted for one in fields)
    is_struct = issubclass(kind, msgspec.Struct)
    assign = msgspec.structs.force_setattr if is_struct else object.__setattr__

    def coerce(item: Any) -> Any:
        for name, value in _coerced(as_dict(item), made).items():
            assign(item, name, value)
        return item

    def check(item: Any) -> Any:
        if isinstance(item, kind):
            return coerce(copy.copy(item))
        values = _coerced(as_dict(item), given)
        item = kind(**{parameters[name]: value for name, value in values.items()})
        return coerce(item) if converts else item

    return check


def _fields_of(kind: type) -> list[ItemField]:
    """The fields of a dataclass, an attrs class or a Struct; none of another class."""
    hints = partial(get_type_hints, kind, include_extras=True)
    if issubclass(kind, msgspec.Struct):
        return [
            ItemField(one.name, one.type, one.required, one.name)
            for one in msgspec.structs.fields(kind)
        ]
    if dataclasses.is_dataclass(kind):
        missing, of = dataclasses.MISSING, hints()
        return [
            ItemField(
                one.name,
                of[one.name],
                one.default is missing and one.default_factory is missing,
                one.name if one.init else "",
            )
            for one in dataclasses.fields(kind)
        ]
    if "__attrs_attrs__" in vars(kind):
        from attrs import NOTHING, fields

        of = hints()
        return [
            ItemField(
                one.name,
                of.get(one.name, Any),
                one.default is NOTHING,
                one.alias if one.init else "",
                one.converter is not None,
            )
            for one in fields(kind)  # type: ignore[arg-type]  # what it is, vars said
        ]
    return []


def _given(kind: type, fields: list[ItemField]) -> type[msgspec.Struct]:
    """The type of the constructor's arguments."""
    specs: list[Any] = []
    for one in fields:
        hint = Any if one.converted else one.hint
        if one.parameter and one.required:
            specs.append((one.name, hint))
        elif one.parameter:
            specs.append((one.name, hint | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct(kind.__name__, specs, kw_only=True, forbid_unknown_fields=True)


def _made(kind: type, fields: list[ItemField]) -> type[msgspec.Struct]:
    """The type of an object's values."""
    return msgspec.defstruct(kind.__name__, [(one.name, one.hint) for one in fields], kw_only=True)


def _coerced(values: dict[Any, Any], shadow: type[msgspec.Struct]) -> dict[str, Any]:
    """Raises Misfit."""
    try:
        checked = msgspec.convert(values, shadow, strict=False, dec_hook=_other)
    except msgspec.ValidationError as error:
        raise _misfit(str(error), shadow.__name__) from None
    found = ((name, getattr(checked, name)) for name in shadow.__struct_fields__)
    return {name: value for name, value in found if value is not msgspec.UNSET}


def _other(kind: Any, value: Any) -> Any:
    """The value of a type that msgspec does not know: a pydantic class, or one of the author's."""
    if isinstance(value, dict) and _is_pydantic(kind):
        return _pydantic_check(kind)(value)
    if not isinstance(value, kind):
        raise ValueError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")
    return value


def _misfit(message: str, kind: str) -> Misfit:
    """The path and the problem of a message of msgspec's."""
    placed = _PLACED.fullmatch(message)
    problem, path = (placed[1], placed[2]) if placed else (message, "")
    if named := _NAMED.fullmatch(problem):
        path = f"{path}.{named[2]}".removeprefix(".")
        problem = "is missing" if named[1] == "missing required" else "is no field of the class"
    problem = _CHOICE.sub(r"\1", problem)
    return Misfit(_INDEX.sub("[]", path) or kind, problem.replace("`", ""))
