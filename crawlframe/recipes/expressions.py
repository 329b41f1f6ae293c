"""Expressions: whether the selectors, patterns and URLs of a recipe can be used at all."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Any

from crawlframe.base.secret import without_logins
from crawlframe.base.urls import normalise
from crawlframe.errors import BadRequest, SpiderError
from crawlframe.recipes import converters
from crawlframe.recipes.extraction import MAX_RANGE, PLACE, RANGE
from crawlframe.recipes.lines import Path
from crawlframe.recipes.recipe import Argument, Field, LinkRule, Next, Part, Recipe
from crawlframe.recipes.spider import RecipeSpider
from crawlframe.spiders.jmes_path import JMESPath

TOO_DEEP = "is too deep; write it in a shorter way"

Problems = Iterator[tuple[Path, str]]

MAX_DIGITS = 18  # of a number in a range

ONE = "give exactly one of css, xpath and jmespath"


def problems_of(recipe: Recipe) -> Problems:
    """Path and text of each problem."""
    for place, url in enumerate(recipe.start_urls):
        yield from _url(("start_urls", place), url, recipe.arguments)
    for place, domain in enumerate(recipe.allowed_domains):
        if not re.fullmatch(r"[^/:\s]+|\[[^/\]]+\]", domain):
            yield ("allowed_domains", place), f"{domain!r} is not a host, such as example.com"
    for name, argument in recipe.arguments.items():
        yield from _argument(("arguments", name), name, argument)
    if recipe.each is not None:
        yield from _select(("each",), recipe.each)
    for name, field in recipe.fields.items():
        yield from _field(("fields", name), field)
    for place, rule in enumerate(recipe.rules):
        yield from _rule(("rules", place), rule)
    if recipe.next is not None:
        yield from _next(("next",), recipe.next, recipe.arguments)
        if not recipe.start_items and "{page}" in recipe.next.url and not recipe.next.limit:
            yield ("next",), "would never end, because start_items is false; give a limit"
    if recipe.detail is not None:
        yield from _select(("detail",), recipe.detail)
        if url := recipe.detail.url:
            yield from _url(("detail", "url"), url, recipe.arguments, "value")
        if not recipe.detail.fields:
            yield ("detail",), "has no fields; add [detail.fields] with what the page is read for"
        for name, field in recipe.detail.fields.items():
            yield from _field(("detail", "fields", name), field)
            if name in recipe.fields:
                yield ("detail", "fields", name), "is a field of the list, too; rename one"


def _field(path: Path, field: Field) -> Problems:
    if field.page and (field.css or field.xpath or field.jmespath):
        yield path, "page is a value of the page itself; leave the other one out"
    elif field.css and field.xpath:
        yield path, "give css or xpath, not both"
    elif not (field.page or field.css or field.xpath or field.jmespath or field.regex):
        yield path, "does not say where the value is; give css, xpath, jmespath, regex or page"
    if field.attribute and not (field.css or field.xpath):
        yield (*path, "attribute"), "belongs to css or xpath; give one of them"
    elif field.attribute and "::" in field.css:
        yield (*path, "attribute"), "the selector ends in ::text or ::attr; leave one of them out"
    yield from _expressions(path, field)
    try:
        converters.read(field.convert)
    except ValueError as error:
        yield (*path, "convert"), str(error)


def _select(path: Path, part: Any) -> Problems:
    if sum(bool(given) for given in (part.css, part.xpath, part.jmespath)) != 1:
        yield path, ONE
    yield from _expressions(path, part)


def _next(path: Path, next_: Next, arguments: dict[str, Argument]) -> Problems:
    given = sum(map(bool, (next_.css, next_.xpath, next_.jmespath, next_.regex)))
    if given > 1:
        yield path, "give one of css, xpath, jmespath and regex"
    elif not given and "{page}" not in next_.url:
        yield path, "does not say where the next page is; give css or xpath, or a url with {page}"
    elif given and next_.url and "{value}" not in next_.url:
        yield (*path, "url"), "has no {value}, which stands for what is selected"
    if next_.url:
        yield from _url((*path, "url"), next_.url, arguments, "value", "page")
    if next_.limit < 0:
        yield (*path, "limit"), "must be 0 or more pages"
    yield from _expressions(path, next_)


def _rule(path: Path, rule: LinkRule) -> Problems:
    for name in ("allow", "deny"):
        for place, pattern in enumerate(getattr(rule, name)):
            if problem := _of_regex(pattern):
                yield (*path, name, place), problem
    for name, check in (("restrict_css", _of_css), ("restrict_xpath", _of_xpath)):
        for place, expression in enumerate(getattr(rule, name)):
            if problem := check(expression):
                yield (*path, name, place), problem
    if not rule.follow and not rule.items:
        yield path, "its pages would be fetched for nothing; make follow or items true"


def _expressions(path: Path, part: Part) -> Problems:
    checks = {"css": _of_css, "xpath": _of_xpath, "jmespath": _of_jmespath, "regex": _of_regex}
    for name, check in checks.items():
        expression = getattr(part, name, "")
        if expression and (problem := check(expression)):
            yield (*path, name), problem


def _argument(path: Path, name: str, argument: Argument) -> Problems:
    if hasattr(RecipeSpider, name) or name in ("recipe", "value", "page"):
        yield path, f"{name!r} is a name of the spider's own; use another"
    if argument.choices and argument.type != "text":
        yield (*path, "choices"), 'belong to arguments of type "text"'
    if argument.default is not None and (problem := _misfit(argument)):
        yield (*path, "default"), f"{argument.default!r} is not {problem}"


def _misfit(argument: Argument) -> str:
    """The right form of the default, "" if it has it."""
    default = argument.default
    kinds: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "list": list}
    of_kind = isinstance(default, kinds.get(argument.type, str))
    if not of_kind or (isinstance(default, bool) and argument.type != "bool"):
        return f"of type {argument.type!r}"
    if argument.choices and default not in argument.choices:
        return "one of the choices"
    if argument.type == "date":
        try:
            datetime.date.fromisoformat(default)
        except ValueError:
            return "a date, such as 2024-03-31"
    return ""


def _url(path: Path, url: str, arguments: dict[str, Argument], *own: str) -> Problems:
    for name in PLACE.findall(url):
        if name not in arguments and name not in own:
            yield path, f"{{{name}}} is no argument; add [arguments.{name}], or a range as {{1..9}}"
    for first, last in RANGE.findall(url):
        short = max(len(first), len(last)) <= MAX_DIGITS
        if not short or not 0 <= int(last) - int(first) < MAX_RANGE:
            yield path, f"{{{first:.30}..{last:.30}}} must count up, at most {MAX_RANGE:,} numbers"
    if without_logins(url) != url:
        yield path, "user and password do not belong here; give them to the credentials of the host"
    if url.startswith("{") or (own and url.startswith("/")):
        return
    try:
        normalise(RANGE.sub("1", PLACE.sub("x", url)))
    except BadRequest as error:
        yield path, str(error)


def _of_css(expression: str) -> str:
    from cssselect import SelectorError
    from parsel.csstranslator import HTMLTranslator

    try:
        HTMLTranslator().css_to_xpath(expression)
    except RecursionError:
        return TOO_DEEP
    except (SelectorError, ValueError) as error:
        return f"{expression!r} is not a CSS selector: {error}"
    return ""


def _of_xpath(expression: str) -> str:
    from lxml import etree
    from parsel import Selector

    if re.search(r"\bre:(?:test|match|replace)\s*\(", expression):
        return f"{expression!r} has a function of re:, which may never end; give a regex as well"
    try:
        etree.XPath(expression)
        Selector(text="<html/>").xpath(expression)  # unknown functions and prefixes
    except (etree.XPathError, ValueError) as error:
        return f"{expression!r} is not an XPath expression: {error}"
    return ""


def _of_jmespath(expression: str) -> str:
    try:
        JMESPath(expression)
    except RecursionError:
        return TOO_DEEP
    except SpiderError as error:
        return str(error)
    return ""


def _of_regex(expression: str) -> str:
    import regex

    try:
        regex.compile(expression)
    except (RecursionError, OverflowError):
        return "is too deep, or repeats too often; write it in a shorter way"
    except regex.error as error:
        place = "" if error.pos is None else f" at character {error.pos + 1}"
        return (
            f"{expression!r} is not a regular expression: {error.msg}{place}; put a backslash "
            "before characters that are meant literally"
        )
    return ""
