"""Secret arguments: which ones a spider's schema marks, and how they are stored: sealed, as a JSON
object that says so itself, so that they stay hidden when the schema is gone or has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from django.utils.translation import gettext

from crawlframe.base.secret import MASK, SEALED, Secret, is_sealed
from crawlframe.errors import ArgumentError
from crawlservice.security.sealing import SealError, reseal, seal, unseal

Schema = dict[str, Any]


def wrapped(schema: Schema, values: dict[str, Any]) -> dict[str, Any]:
    """Checked arguments, with a Secret for each text that the schema marks. Raises ArgumentError
    for the mask of a secret, and for a Secret where the spider takes none."""
    return {name: _wrap(value, name, _below([schema], name, schema), schema)
            for name, value in values.items()}  # fmt: skip


def unwrapped(value: Any) -> Any:
    """The same with the texts themselves, to be checked."""
    return _changed(value, lambda one: one.reveal() if isinstance(one, Secret) else one)


def sealed(value: Any) -> Any:
    """The same as it is stored."""
    return _changed(
        value, lambda one: {SEALED: seal(one.reveal())} if isinstance(one, Secret) else one
    )


def revealed(value: Any) -> Any:
    """A stored value, with a Secret for each sealed text. Raises SealError."""
    return _changed(value, lambda one: Secret(unseal(one[SEALED])) if is_sealed(one) else one)


def resealed(value: Any) -> Any:
    """A stored value, encrypted with the current key. Raises SealError."""
    return _changed(value, lambda one: {SEALED: reseal(one[SEALED])} if is_sealed(one) else one)


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value with ``change`` applied to its parts."""
    if (new := change(value)) is not value:
        return new
    if isinstance(value, dict):
        return {key: _changed(part, change) for key, part in value.items()}
    return [_changed(part, change) for part in value] if isinstance(value, list) else value


def readable(stored: dict[str, Any]) -> dict[str, Any]:
    """The same, without the arguments whose secrets were sealed with another key."""
    found = {}
    for name, value in stored.items():
        with suppress(SealError):
            found[name] = revealed(value)
    return found


def restored(given: Any, before: Any) -> Any:
    """``given`` with the secrets of ``before`` in the place of their masks."""
    if given == MASK and isinstance(before, Secret):
        return before
    if isinstance(given, dict) and isinstance(before, dict):
        return {key: restored(value, before.get(key)) for key, value in given.items()}
    if isinstance(given, list) and isinstance(before, list):
        return [*map(restored, given, before), *given[len(before) :]]
    return given


def has_secrets(value: Any) -> bool:
    """Whether these arguments, stored or not, hold a secret."""
    if isinstance(value, Secret) or is_sealed(value):
        return True
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(has_secrets(part) for part in parts)


def takes_secrets(schema: Schema, root: Schema) -> bool:
    """Whether this argument, or any part of it, is a secret."""
    return _takes(schema, root, frozenset())


def is_secret(schema: Schema, root: Schema) -> bool:
    """Whether text for this argument is a secret."""
    return any(one.get("writeOnly") is True for one in choices(schema, root))


def choices(schema: Schema, root: Schema) -> list[Schema]:
    """The schemas that are alternatives, without references."""
    while "$ref" in schema:
        found: Schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    either = schema.get("anyOf") or schema.get("oneOf")
    if not either:
        return [schema]
    return [choice for one in either for choice in choices(one, root)]


def _wrap(value: Any, where: str, schemas: list[Schema], root: Schema) -> Any:
    marked = any(one.get("writeOnly") is True for one in schemas)
    if isinstance(value, Secret) and not marked:
        text = gettext(
            "argument {name!r} is stored as a secret, and the spider no longer takes one there; "
            "give it again"
        )
        raise ArgumentError(text.format(name=where))
    if isinstance(value, str | Secret) and marked:
        secret = value if isinstance(value, Secret) else Secret(value)
        if secret == Secret(MASK):
            text = gettext("argument {name!r} is the mask of a secret; give the secret itself")
            raise ArgumentError(text.format(name=where))
        return secret
    if is_sealed(value):
        text = gettext("argument {name!r}: an object with the only key {key!r} is not accepted")
        raise ArgumentError(text.format(name=where, key=SEALED))
    if isinstance(value, dict):
        return {k: _wrap(v, where, _below(schemas, k, root), root) for k, v in value.items()}
    if isinstance(value, list):
        return [_wrap(v, where, _below(schemas, n, root), root) for n, v in enumerate(value)]
    return value


def _below(schemas: Iterable[Schema], key: str | int, root: Schema) -> list[Schema]:
    """The schemas for the part of an object or a list."""
    found: list[Schema] = []
    for schema in schemas:
        if isinstance(key, int):
            first = schema.get("prefixItems", ())
            part = first[key] if key < len(first) else schema.get("items")
        else:
            part = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
        if isinstance(part, dict):
            found += choices(part, root)
    return found


def _takes(schema: Schema, root: Schema, seen: frozenset[str]) -> bool:
    if (name := schema.get("$ref", "")) in seen:
        return False
    for one in choices(schema, root):
        parts = [*one.get("properties", {}).values(), *one.get("prefixItems", ())]
        parts += [one.get("items"), one.get("additionalProperties")]
        known = seen | {name} if name else seen
        if one.get("writeOnly") is True or any(
            _takes(part, root, known) for part in parts if isinstance(part, dict)
        ):
            return True
    return False
