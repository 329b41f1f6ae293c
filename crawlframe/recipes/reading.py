"""Reading: data of a file or a form becomes a Recipe, or a list of all that is wrong with it."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, TypeVar

import msgspec

from crawlframe.base.expect import expectation
from crawlframe.base.type_words import in_words, parted, wanted
from crawlframe.errors import SpiderError, did_you_mean
from crawlframe.recipes import expressions
from crawlframe.recipes.converters import split
from crawlframe.recipes.lines import Path, line_of, lines_of
from crawlframe.recipes.recipe import (
    Argument,
    Detail,
    Field,
    LinkRule,
    Next,
    Part,
    Recipe,
    Select,
)
from crawlframe.render.required import expected_fields
from crawlframe.spider.setting_tables import flat, merged, nested, wrong_names
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.task_settings import impossible

PartType = TypeVar("PartType", bound=Part)

NAME = re.compile(r"[\w.-]{1,100}")
FIELD = re.compile(r"[^\W\d]\w{0,99}")
SHORT = {Field: "css", Next: "css", Detail: "css", Select: "css", Argument: "default", LinkRule: ""}


class Problem(NamedTuple):
    """A problem of a recipe. ``path``: the keys that lead to it."""

    path: Path
    text: str

    def __str__(self) -> str:
        place = ""
        for part in self.path:
            place += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if place else part
        return f"{place}: {self.text}" if place else self.text


class RecipeError(SpiderError):
    """The recipe is not valid; ``problems`` are all that was found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def from_text(text: str, kind: str, place: str, name: str = "") -> Recipe | None:
    """The recipe in the text of a file; ``kind``: "toml" or "json". None when the file is no
    recipe: it has neither start_urls, fields nor rules. ``name``: used when it has none.

    Raises SpiderError, a line for each problem: ``place``, line number, the problem."""
    import tomllib  # large, and few nodes have recipes

    try:
        data = json.loads(text) if kind == "json" else tomllib.loads(text)
    except json.JSONDecodeError as error:
        if '"start_urls"' not in text:
            return None
        raise SpiderError(f"{place}:{error.lineno}: not JSON: {error.msg}") from None
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        number = line[1] if line else max(1, len(text.splitlines()))
        raise SpiderError(f"{place}:{number}: not TOML: {error}") from None
    if not isinstance(data, dict) or not data.keys() & {"start_urls", "fields", "rules"}:
        return None
    try:
        return from_data({"name": name, **data})
    except RecipeError as error:
        lines = lines_of(text, kind)
        told = [f"{place}:{line_of(one.path, lines)}: {one}" for one in error.problems]
        raise SpiderError("\n".join(told)) from None


def from_data(data: dict[str, Any]) -> Recipe:
    """Returns the Recipe of the data. Raises RecipeError."""
    reader = _Reader()
    recipe = reader.recipe(data)
    if reader.problems or recipe is None:
        raise RecipeError(reader.problems)
    return recipe


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def wrong(self, path: Path, text: str) -> None:
        self.problems.append(Problem(path, text))

    def recipe(self, data: dict[str, Any]) -> Recipe | None:
        rest = {**data}
        parts: dict[str, Any] = {
            "each": self.maybe(Select, rest, "each"),
            "next": self.maybe(Next, rest, "next"),
            "detail": self.detail(rest),
            "fields": self.table(Field, rest, "fields"),
            "arguments": self.table(Argument, rest, "arguments"),
            "rules": self.array(LinkRule, rest, "rules"),
        }
        settings = rest.pop("settings", {})
        parts["expect"] = self.expect(rest.pop("expect", {}))
        recipe = self.part(Recipe, rest, (), settings=self.settings(settings), **parts)
        if recipe is None:
            return None
        if not NAME.fullmatch(recipe.name):
            self.wrong(("name",), f"{recipe.name!r} must be up to 100 letters, digits and . _ -")
        self.required(recipe.fields, recipe.required, ("required",))
        for path, problem in expressions.problems_of(recipe):
            self.wrong(path, problem)
        if recipe.settings.get("render") == "auto" and not self.problems:
            needed = recipe.required or (recipe.detail and recipe.detail.required)
            if not needed and not expected_fields(recipe.expect):
                self.wrong(("settings", "render"), NEEDS_FIELDS)
        return recipe

    def detail(self, rest: dict[str, Any]) -> Detail | None:
        given = rest.pop("detail", None)
        if given is None:
            return None
        if isinstance(given, str):
            given = {"css": given}
        if not isinstance(given, dict):
            self.wrong(("detail",), "must be a table, such as [detail]")
            return None
        own = {**given}
        fields = self.table(Field, own, "fields", ("detail",))
        detail = self.part(Detail, own, ("detail",), fields=fields)
        if detail is not None:
            self.required(detail.fields, detail.required, ("detail", "required"))
        return detail

    def required(self, fields: dict[str, Field], names: tuple[str, ...], path: Path) -> None:
        for place, name in enumerate(names):
            if name not in fields:
                near = did_you_mean(name, fields)
                self.wrong(
                    (*path, place), f"there is no field {name!r}{near}; add it to the fields"
                )

    def maybe(self, kind: type[PartType], rest: dict[str, Any], name: str) -> PartType | None:
        given = rest.pop(name, None)
        return None if given is None else self.part(kind, given, (name,))

    def table(
        self, kind: type[PartType], rest: dict[str, Any], name: str, above: Path = ()
    ) -> dict[str, PartType]:
        given, path = rest.pop(name, {}), (*above, name)
        if not isinstance(given, dict):
            self.wrong(path, f"must be a table, such as [{'.'.join(map(str, path))}]")
            return {}
        made = {}
        for key, value in given.items():
            if not FIELD.fullmatch(key):
                self.wrong((*path, key), "a name has letters, digits and _, and no digit first")
            one = self.part(kind, value, (*path, key))
            if one is not None:
                made[key] = one
        return made

    def array(self, kind: type[PartType], rest: dict[str, Any], name: str) -> tuple[PartType, ...]:
        given = rest.pop(name, [])
        if not isinstance(given, list):
            self.wrong((name,), f"must be a list of tables, such as [[{name}]]")
            return ()
        made = [self.part(kind, value, (name, place)) for place, value in enumerate(given)]
        return tuple(one for one in made if one is not None)

    def part(self, kind: type[PartType], given: Any, path: Path, **made: Any) -> PartType | None:
        """The part, with the values ``made`` already; problems are noted, and None is returned if
        it cannot be made."""
        if (isinstance(given, str) and SHORT.get(kind)) or kind is Argument:
            given = given if isinstance(given, dict) else _short(kind, given)
        if not isinstance(given, dict):
            self.wrong(path, f"must be a table, not {_shown(given)}")
            return None
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        values: dict[str, Any] = dict(made)
        before = len(self.problems)
        for key, value in given.items():
            if key not in fields:
                near = did_you_mean(key, fields) or f"; use {', '.join(fields)}"
                self.wrong((*path, key), f"there is no key {key!r} here{near}")
                continue
            if key == "convert" and isinstance(value, str | list):
                texts = [value] if isinstance(value, str) else value
                value = [
                    step
                    for text in texts
                    for step in (split(text) if isinstance(text, str) else [text])
                ]
            try:
                values[key] = msgspec.convert(value, fields[key].type)
            except msgspec.ValidationError:
                self.wrong((*path, key), f"must be {wanted(fields[key].type)}, not {_shown(value)}")
        for key, field in fields.items():
            if field.required and not given.get(key) and not self.noted((*path, key)):
                self.wrong((*path, key), f"is missing; {MISSING.get(key, 'add it')}")
        return kind(**values) if len(self.problems) == before else None

    def noted(self, path: Path) -> bool:
        return any(problem.path == path for problem in self.problems)

    def settings(self, given: Any) -> dict[str, Any]:
        if not isinstance(given, dict):
            self.wrong(("settings",), "must be a table, such as [settings]")
            return {}
        for key, problem in impossible(given).items():
            self.wrong(("settings", *key.split(".")), problem)
        for key, value in flat(given).items():
            path, one = ("settings", *key.split(".")), nested({key: value})
            if problem := wrong_names(one, SpiderSettings.__struct_fields__):
                self.wrong(path, problem)
                continue
            try:
                msgspec.convert(one, SpiderSettings, strict=False)
            except msgspec.ValidationError as error:
                if "belongs to" not in str(error) and "needs" not in str(error):
                    self.wrong(path, parted(error, SpiderSettings)[1])
        if given and not any(problem.path[:1] == ("settings",) for problem in self.problems):
            try:
                msgspec.convert(merged({}, given), SpiderSettings, strict=False)
            except msgspec.ValidationError as error:
                self.wrong(("settings",), in_words(error, SpiderSettings))
        return given

    def expect(self, given: Any) -> dict[str, Any]:
        if not isinstance(given, dict):
            self.wrong(("expect",), "must be a table, such as [expect]")
            return {}
        for key, value in given.items():
            try:
                expectation({key: value})
            except ValueError as error:
                self.wrong(("expect", key), str(error).removeprefix("expect: "))
        return given


NEEDS_FIELDS = (
    'render = "auto" must know when an item is incomplete: name the fields that each has, as in '
    'required = ["price"]'
)
MISSING = {
    "name": "give the spider a name",
    "start_urls": 'such as start_urls = ["https://example.com/"]',
}


def _short(kind: type[Part], given: Any) -> Any:
    if kind is Argument:
        types = {bool: "bool", int: "int", float: "float", list: "list"}
        return {"default": given, "type": types.get(type(given), "text")}
    return {SHORT[kind]: given}


def _shown(value: Any) -> str:
    return f"{value!r:.60}"
