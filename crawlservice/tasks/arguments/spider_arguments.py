"""Spider arguments: converts text of a command line to values, and checks both against the schema
that the spider published. The only place where arguments enter."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from msgspec.structs import replace

from crawlframe.base.secret import MASK, masked
from crawlframe.errors import ArgumentError, did_you_mean
from crawlframe.spider.spider import SpiderInfo
from crawlservice.tasks.arguments.secrets import (
    Schema,
    has_secrets,
    takes_secrets,
    unwrapped,
    wrapped,
)

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MAX_SIZE = 64 * 1024  # most bytes of all arguments of a task, as JSON
SHOWN_SIZE = 2000  # characters of arguments shown in lists
SHOWN_VALUE = 200  # characters of one value, when they are shortened
SHOWN_VALUES = 20  # values shown, when they are shortened

BOOLEANS = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False, "no": False, "off": False, "0": False
}  # fmt: skip
WORDS = {
    "integer": _("a whole number"),
    "number": _("a number"),
    "boolean": _("true or false"),
    "string": _("text"),
    "null": _("null"),
    "object": _("a JSON object"),
    "array": _("a list (a,b or JSON)"),
}
FORMATS = {
    "date": _("a date such as 2026-01-31"),
    "date-time": _("a time such as 2026-01-31T12:00:00+00:00"),
    "time": _("a time of day such as 12:30:00"),
    "uri": _("a URL such as https://example.com/page"),
    "uuid": _("a UUID"),
    "regex": _("a regular expression"),
    "password": _("a secret text"),
    "file-path": _("the path of a file below CRAWLFRAME_ARGUMENT_FILES; in commands, of any file"),
}

LIMITS = {
    "minimum": _("at least {}"), "maximum": _("at most {}"),
    "exclusiveMinimum": _("more than {}"), "exclusiveMaximum": _("less than {}"),
    "minLength": _("at least {} characters"), "maxLength": _("at most {} characters"),
    "minItems": _("at least {} entries"), "maxItems": _("at most {} entries"),
    "pattern": _("matching {}"), "multipleOf": _("a multiple of {}"),
}  # fmt: skip


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """``["city=Ulm"]`` -> ``{"city": "Ulm"}``. Raises ArgumentError on anything else."""
    given: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ArgumentError(gettext("{!r} is not an argument; give name=value").format(pair))
        if name in given:
            raise ArgumentError(gettext("argument {!r} is given twice").format(name))
        given[name] = value
    return given


def check(
    info: SpiderInfo, given: dict[str, Any], *, from_text: bool, any_file: bool = False
) -> dict[str, Any]:
    """The arguments as they are handed to the spider, secrets as Secret; ``given`` may have some
    already, copied from another task.

    With ``from_text`` every value is text as typed on a command line and is read by the type the
    schema asks for; otherwise types must be right. ``any_file``: a FilePath need not be below
    CRAWLFRAME_ARGUMENT_FILES. Raises ArgumentError naming the argument, and
    not showing secrets."""
    properties: Schema = info.arguments.get("properties", {})
    for name in given:
        if name not in properties:
            known = f"its arguments: {', '.join(properties)}" if properties else "it has none"
            raise ArgumentError(
                f"spider {info.name!r} has no argument {name!r}"
                f"{did_you_mean(name, properties)}; {known}"
            )
    for name in info.arguments.get("required", ()):
        if name not in given:
            text = gettext("spider {!r} needs the argument {!r}: {}")
            wanted = accepted(properties[name], info.arguments)
            raise ArgumentError(text.format(info.name, name, wanted))
    _check_size(info, given)
    values = dict(given)
    if from_text:
        values = {name: read(info, name, text) for name, text in given.items()}
    plain = unwrapped(values)
    from crawlservice.tasks.arguments.schema_check import first_error  # most processes check none

    if error := first_error(info.arguments, plain, any_file=any_file):
        name = str(error.absolute_path[0])
        raise _refusal(info, name, given[name], error)
    for name, value in plain.items():
        if not storable(value):
            text = gettext(
                "argument {name!r} of spider {spider!r}: {value!r} cannot be stored; leave out "
                "NUL characters, broken Unicode, NaN and Infinity"
            )
            shown = MASK if takes_secrets(properties[name], info.arguments) else value
            raise ArgumentError(text.format(name=name, spider=info.name, value=shown))
    checked = wrapped(info.arguments, values)
    for name, value in checked.items():
        if not has_secrets(value) and masked(value) != value:
            text = gettext(
                "argument {name!r}: user and password of a URL would be stored and shown; give "
                "them to the credentials of the host, or make the argument a Secret"
            )
            raise ArgumentError(text.format(name=name))
    return checked


def _check_size(info: SpiderInfo, given: dict[str, Any]) -> None:
    size = len(json.dumps(unwrapped(given), ensure_ascii=False).encode(errors="replace"))
    if size > MAX_SIZE:
        text = gettext(
            "the arguments of spider {spider!r} have {size:,} bytes as JSON, at most {most:,} are "
            "taken; let the spider fetch a long list from a URL"
        )
        raise ArgumentError(text.format(spider=info.name, size=size, most=MAX_SIZE))


def shortened(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments for lists: long arguments, with each long value as the start of its JSON, with "…".
    Secrets are masked."""
    arguments = masked(arguments)
    if len(json.dumps(arguments)) <= SHOWN_SIZE:
        return arguments
    shown = list(arguments.items())[:SHOWN_VALUES]
    return {name[:SHOWN_VALUE]: _short(value) for name, value in shown}


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= SHOWN_VALUE else f"{text[: SHOWN_VALUE - 1]}…"


def read(info: SpiderInfo, name: str, text: Any) -> Any:
    """Text as a value of this argument's type; its limits are not checked. A value that holds a
    Secret is not converted. Raises ArgumentError."""
    if has_secrets(text):
        return text
    try:
        return from_text(text, info.arguments["properties"][name], info.arguments)
    except ValueError:
        raise _refusal(info, name, text) from None


def problems(info: SpiderInfo, given: dict[str, Any], *, from_text: bool) -> dict[str, str]:
    """The problem of each argument, by its name; ``check`` raises the first problem."""
    found: dict[str, str] = {}
    properties: Schema = info.arguments.get("properties", {})
    for name in info.arguments.get("required", ()):
        if name not in given:
            found[name] = gettext("This field is required: {}").format(
                accepted(properties[name], info.arguments)
            )
    lenient = replace(info, arguments={**info.arguments, "required": []})
    for name, value in given.items():
        try:
            check(lenient, {name: value}, from_text=from_text)
        except ArgumentError as error:
            found[name] = str(error)
    try:
        _check_size(info, given)
    except ArgumentError as error:
        largest = max(given, key=lambda name: len(str(given[name])))
        found.setdefault(largest, str(error))
    return found


def accepted(schema: Schema, root: Schema) -> str:
    """The values that a schema accepts, in words: "a whole number, at least 1"."""
    schema = resolve(schema, root)
    if "enum" in schema:
        return gettext("one of {}").format(", ".join(_shown(value) for value in schema["enum"]))
    if "const" in schema:
        return _shown(schema["const"])
    for choices in ("anyOf", "oneOf"):
        if choices in schema:
            return gettext(" or ").join(accepted(choice, root) for choice in schema[choices])
    kind = schema.get("type")
    if kind is None:
        return gettext("anything")
    words = str(FORMATS.get(schema.get("format", ""), WORDS.get(kind, kind)))
    if kind == "array" and isinstance(schema.get("items"), dict):
        words += gettext(", each {}").format(accepted(schema["items"], root))
    set_limits = {
        key: str(text).format(schema[key]) for key, text in LIMITS.items() if key in schema
    }
    if "pattern" in schema and "description" in schema:  # that says it to people
        set_limits["pattern"] = schema["description"]
    return ", ".join([words, *set_limits.values()])


def _refusal(
    info: SpiderInfo, name: str, value: Any, error: ValidationError | None = None
) -> ArgumentError:
    schema = info.arguments["properties"][name]
    wanted = accepted(schema, info.arguments)
    inside = ""
    value = MASK if takes_secrets(schema, info.arguments) else masked(value)
    if value != MASK and error is not None and len(error.absolute_path) > 1:
        inside = f" ({masked(error.message)})"
    text = gettext(
        "argument {name!r} of spider {spider!r}: {value!r} is not accepted{inside}; give {wanted}"
    )
    return ArgumentError(
        text.format(name=name, spider=info.name, value=value, inside=inside, wanted=wanted)
    )


def from_text(text: str, schema: Schema, root: Schema) -> Any:
    """``text`` as a value of the schema's type. Raises ValueError."""
    schema = resolve(schema, root)
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        for choice in choices:
            if text == choice or (not isinstance(choice, str) and text == json.dumps(choice)):
                return choice
        raise ValueError
    for choices in ("anyOf", "oneOf"):
        if choices in schema:
            return _read_any(text, [resolve(choice, root) for choice in schema[choices]], root)
    kind = schema.get("type")
    if kind == "integer":
        return int(text)
    if kind == "number":
        number = float(text)
        if not math.isfinite(number):
            raise ValueError
        return number
    if kind == "boolean":
        if text.lower() not in BOOLEANS:
            raise ValueError
        return BOOLEANS[text.lower()]
    if kind == "null":
        if text.lower() not in ("null", "none", ""):
            raise ValueError
        return None
    if kind == "array":
        return _read_list(text, schema, root)
    if kind == "object":
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError
        return value
    return text


def _read_any(text: str, choices: list[Schema], root: Schema) -> Any:
    """The first choice that can be read; text comes last, as it can always be read."""
    plain = [choice for choice in choices if choice.get("type") == "string"]
    has_text = bool(plain)
    for choice in [*(choice for choice in choices if choice not in plain), *plain]:
        if choice.get("type") == "null" and has_text and text != "null":
            continue
        try:
            return from_text(text, choice, root)
        except ValueError:
            continue
    raise ValueError


def _read_list(text: str, schema: Schema, root: Schema) -> list[Any]:
    if text.lstrip().startswith("["):
        value: list[Any] = json.loads(text)
        return value
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    first: list[Schema] = schema.get("prefixItems", [])
    rest = schema.get("items")
    kinds = first + [rest if isinstance(rest, dict) else {}] * max(0, len(parts) - len(first))
    return [from_text(part, kind, root) for part, kind in zip(parts, kinds, strict=False)]


def resolve(schema: Schema, root: Schema) -> Schema:
    """The schema that a reference points to."""
    if "$ref" not in schema:
        return schema
    found: Schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    return {**found, **{key: value for key, value in schema.items() if key != "$ref"}}


def storable(value: Any) -> bool:
    """Whether PostgreSQL's jsonb and JSON can store it: no U+0000, lone surrogates or NaN."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= mark <= "\udfff" for mark in value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(storable(key) and storable(inner) for key, inner in value.items())
    return not isinstance(value, list) or all(map(storable, value))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def signature(info: SpiderInfo) -> list[str]:
    """The arguments in words, one line each: "depth: a whole number = 0"."""
    required = info.arguments.get("required", ())
    lines = []
    for name, schema in info.arguments.get("properties", {}).items():
        words = f"{name}: {accepted(schema, info.arguments)}"
        if "default" in schema:
            words += f" = {json.dumps(schema['default'], ensure_ascii=False)}"
        lines.append(words + (gettext(" (required)") if name in required else ""))
    return lines
