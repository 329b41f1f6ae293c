"""Converters: functions for the texts that a field finds. ``"price | list"`` makes each of them a
number, and keeps them all.

Patterns: the regular expressions of recipes, whose search ends after some seconds: a pattern that
backtracks would stop a worker with all its requests."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from crawlframe.base.exact_json import loads
from crawlframe.base.urls import join
from crawlframe.errors import SpiderError, did_you_mean

SECONDS = 5.0  # for one field, or one link
DATES = (
    "%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y",
)  # fmt: skip
YES = frozenset({"true", "yes", "1", "on", "y"})
MAX_TEXT = 32 << 20  # characters of all values after a step; a page has no more bytes by default
NO = frozenset({"false", "no", "0", "off", "n", ""})
_SPACE = "['\u00a0\u202f\u2009 ]"  # between thousands
_NUMBER = re.compile(rf"[-+−]?\d+(?:{_SPACE}\d{{3}}(?!\d))*(?:[.,]\d+)*")
_INTEGER = re.compile(rf"[-+−]?\d{{1,3}}(?:(?:[.,]|{_SPACE})\d{{3}}(?!\d))+|[-+−]?\d+")
_FAR_EAST = re.compile(r"(\d{4})\s*年\s*(\d{1,2})\s*月\s*(\d{1,2})\s*日")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")


class Converter(NamedTuple):
    """A converter. ``function`` takes a value, the text after the colon and the URL of the page; if
    it ``gathers``, the list of all values. ``takes``: the kind of text after the colon; "" if there
    is none."""

    function: Callable[[Any, str, str], Any]
    told: str
    takes: str = ""
    gathers: bool = False
    may_lack: bool = False  # the text after the colon may be left out


class ConverterStep(NamedTuple):
    name: str
    parameter: str
    converter: Converter


def read(names: Iterable[str]) -> list[ConverterStep]:
    """The steps that ``names`` stand for; a name may be several, separated by ``|``. Raises
    ValueError."""
    steps = []
    for word in (part for text in names for part in split(text)):
        name, colon, parameter = word.partition(":")
        name = name.strip()
        converter = CONVERTERS.get(name)
        if converter is None:
            near = did_you_mean(name, CONVERTERS)
            raise ValueError(f"there is no converter {name!r}{near}; use {', '.join(CONVERTERS)}")
        if converter.takes and not parameter and not converter.may_lack:
            raise ValueError(f"{name} needs {converter.takes}, such as {converter.told}")
        if colon and not converter.takes:
            raise ValueError(f"{name} takes nothing after a colon; write {name}")
        steps.append(ConverterStep(name, parameter, converter))
    if any(step.name == "html" for step in steps[1:]):
        raise ValueError("html must be the first converter: the others get text")
    return steps


def convert(steps: list[ConverterStep], values: list[Any], url: str) -> tuple[Any, str]:
    """The value of a field, and values that could not be converted, "" if none. Such values are
    left out, and so are those beyond MAX_TEXT. Unless a converter gathers all values, the first
    counts."""
    problem = ""
    gathered = False
    result: Any = None
    for step in steps:
        function, parameter = step.converter.function, step.parameter
        if step.converter.gathers:
            if not gathered:
                result, gathered = values, True
            several = result if isinstance(result, list) else [result]
            try:
                result = function(several, parameter, url)
            except ValueError:
                result, problem = None, f"not {step.name}"
            continue
        kept: list[Any] = []
        size = 0
        several = result if isinstance(result, list) else [result]
        for value in several if gathered else values:
            try:
                made = function(value, parameter, url)
            except (ValueError, TypeError, OverflowError, RecursionError):
                problem = f"not {step.name}"
                continue
            size += len(made) if isinstance(made, str) else 0
            if size > MAX_TEXT:
                problem = f"not {step.name}"
                break
            kept += made if step.name == "split" else [made]
        if not gathered:
            values = kept
        elif isinstance(result, list) or step.name == "split":
            result = kept
        else:
            result = kept[0] if kept else None
    if not gathered:
        result = values[0] if values else None
    return result, problem


def plain(value: Any) -> Any:
    """Text with single spaces; anything else as it is."""
    return " ".join(value.split()) if isinstance(value, str) else value


def split(text: str) -> list[str]:
    """The steps between bars, without the space before a bar. A bar right after a colon or a
    backslash belongs to the parameter."""
    parts = re.split(r"(?<![:\\]) ?\|", text)
    return [part.lstrip().replace("\\|", "|") for part in parts if part.strip()]


def to_int(value: Any) -> int:
    """The first whole number of a text: ``"1,234 reviews"`` is 1234."""
    if isinstance(value, bool | int | float):
        return int(value)
    text = _number_in(value, _INTEGER)
    return int(text[:1] + re.sub(r"\D", "", text[1:]))


def to_float(value: Any) -> float:
    """The first number of a text, with a point as its decimal mark: ``"1,234.5 km"``."""
    if isinstance(value, bool | int | float):
        return float(value)
    return _finite(re.sub(r"[^\d.+-]", "", _number_in(value, _NUMBER)).rstrip("."))


def to_price(value: Any) -> float:
    """The first number of a text. The last point or comma is the decimal mark when one or two
    digits follow it, or the other mark precedes it: ``"1.234,50 €"``."""
    if isinstance(value, bool | int | float):
        return float(value)
    text = re.sub(r"[^\d.,+-]", "", _number_in(value, _NUMBER)).rstrip(".,")
    mark = max(text.rfind("."), text.rfind(","))
    other = "," if text[mark : mark + 1] == "." else "."
    digits = len(text) - mark - 1
    thousands = digits == 3 and other not in text[:mark] and text[:mark].strip("+-") != "0"
    if mark < 0 or thousands or text.count(text[mark]) > 1:
        return _finite(re.sub(r"[.,]", "", text))
    return _finite(re.sub(r"[.,]", "", text[:mark]) + "." + text[mark + 1 :])


def _number_in(value: Any, pattern: re.Pattern[str]) -> str:
    found = pattern.search(str(value))
    if found is None:
        raise ValueError(f"no number in {value!r}")
    return found[0].replace("−", "-")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large")
    return number


def to_date(value: Any, form: str = "") -> str:
    """The date of a text as ``"2024-03-31"``. ``form``: as strptime has it; without one, ISO 8601,
    mail dates and the usual spellings with English months, day before month."""
    return _moment(value, form).date().isoformat()


def _moment(value: Any, form: str) -> datetime:
    text = " ".join(str(value).split())
    if form:
        return datetime.strptime(text, form)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    if far_east := _FAR_EAST.search(text):
        year, month, day = map(int, far_east.groups())
        return datetime(year, month, day)
    words = _ORDINAL.sub("", text).replace(",", " ")
    for spelling in DATES:
        try:
            return datetime.strptime(" ".join(words.split()), spelling)
        except ValueError:
            continue
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError):
        raise ValueError(f"no date in {text!r}") from None


def to_bool(value: Any) -> bool:
    if isinstance(value, bool | int | float):
        return bool(value)
    word = str(value).strip().lower()
    if word not in YES | NO:
        raise ValueError(f"{value!r} is neither yes nor no")
    return word in YES


def to_url(value: Any, base: str) -> str:
    url = join(base, str(value).strip())
    if url is None:
        raise ValueError(f"{value!r} is no http(s) link")
    return url


def _replace(value: Any, parameter: str, url: str) -> str:
    text = str(value)
    old, new = (part.strip(" ") for part in parameter.partition("=>")[::2])
    if len(text) + text.count(old) * (len(new) - len(old)) > MAX_TEXT:
        raise ValueError(f"the text would have more than {MAX_TEXT} characters")
    return text.replace(old, new)


def _text_list(values: list[Any], parameter: str, url: str) -> str:
    texts = [str(value) for value in values]
    if sum(map(len, texts)) + len(parameter) * len(texts) > MAX_TEXT:
        raise ValueError(f"the text would have more than {MAX_TEXT} characters")
    return parameter.join(texts)


def _unique(values: list[Any], parameter: str, url: str) -> list[Any]:
    kept: dict[Any, Any] = {}
    for value in values:
        is_plain = isinstance(value, str | int | float)  # anything else may be unhashable
        kept.setdefault(value if is_plain else (json.dumps(value, sort_keys=True),), value)
    return list(kept.values())


CONVERTERS: dict[str, Converter] = {
    "text": Converter(lambda value, _, url: plain(str(value)), "text with single spaces"),
    "strip": Converter(lambda value, _, url: str(value).strip(), "without spaces around it"),
    "lower": Converter(lambda value, _, url: str(value).lower(), "small letters"),
    "upper": Converter(lambda value, _, url: str(value).upper(), "capital letters"),
    "html": Converter(lambda value, _, url: value, "the markup, not its text; comes first"),
    "int": Converter(lambda value, _, url: to_int(value), "the first whole number"),
    "float": Converter(lambda value, _, url: to_float(value), "the first number: 1,234.5"),
    "price": Converter(lambda value, _, url: to_price(value), "a price in any spelling"),
    "bool": Converter(lambda value, _, url: to_bool(value), "yes or no"),
    "date": Converter(
        lambda value, form, url: to_date(value, form), "date:%d/%m/%Y", "a form", may_lack=True
    ),
    "datetime": Converter(
        lambda value, form, url: _moment(value, form).isoformat(),
        "datetime:%d/%m/%Y %H:%M",
        "a form",
        may_lack=True,
    ),
    "url": Converter(lambda value, _, url: to_url(value, url), "a whole URL"),
    "json": Converter(
        lambda value, _, url: loads(value) if isinstance(value, str) else value,
        "the data that JSON text stands for",
    ),
    "replace": Converter(_replace, "replace:old=>new", "the text that is replaced"),
    "split": Converter(
        lambda value, mark, url: [part.strip() for part in str(value).split(mark)],
        "split:,",
        "a separator",
    ),
    "list": Converter(lambda values, _, url: values, "all that is found", gathers=True),
    "unique": Converter(_unique, "all that is found, each once", gathers=True),
    "join": Converter(_text_list, "join:, ", "a separator", gathers=True, may_lack=True),
    "count": Converter(lambda values, _, url: len(values), "how many are found", gathers=True),
    "first": Converter(
        lambda values, _, url: values[0] if values else None, "the first", gathers=True
    ),
    "last": Converter(
        lambda values, _, url: values[-1] if values else None, "the last", gathers=True
    ),
}


def find(pattern: str, texts: Iterable[str]) -> Iterator[Any]:
    """The matches in the texts. Raises SpiderError if that takes longer than SECONDS."""
    import regex  # large, and few nodes have recipes

    end = time.monotonic() + SECONDS
    try:
        for text in texts:
            left = max(end - time.monotonic(), 0.001)
            yield from regex.finditer(pattern, text, timeout=left, concurrent=True)
    except TimeoutError:
        raise SpiderError(
            f"the regular expression {pattern!r} took longer than {SECONDS:g} s, because it tries "
            "again and again; do not repeat what is repeated already, as (a+)+ does"
        ) from None
