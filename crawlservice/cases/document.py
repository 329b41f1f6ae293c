"""Document: a page as cases compare it: the places of its values in markup and JSON, the names of
its elements, its language, and signs of a challenge or a login."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_TEXT = 1_000_000  # characters of a page that are read
MAX_NODES = 5_000  # elements, and values of JSON
MAX_VALUE = 2_000  # characters of a text that may be a value
MAX_SCRIPTS = 20  # that are searched for JSON
TRIES = 50  # places of a script where JSON may begin
CLASSES = 4  # classes of an element that are a part of its name
ANCESTORS = 8  # that may give an element its name
TEXT, ATTRIBUTE, JSON = "text", "attribute", "json"
UNSEEN = frozenset({"script", "style", "noscript", "template"})
NAMING = ("itemprop", "property", "name")  # attributes that name the value of an element
LINKS = frozenset({"href", "src"})
SKIPPED = frozenset({"class", "id", "style", *NAMING})  # attributes that have no values
NUMBER = re.compile(r"\d(?:[\d.,'’ \u00a0\u202f]*\d)?")
CURRENCY = re.compile(r"[$€£¥₹₽₩]|\b(?:USD|EUR|GBP|JPY|CNY|RMB|INR|CHF)\b|元")
OPENING = re.compile(r"[=(,:]\s*([{\[])|^\s*([{\[])")  # of a JSON value in a script
CHALLENGE = re.compile(
    r"just a moment|attention required|verify (?:that )?you are (?:a )?human|captcha|are you a "
    r"robot|not a robot|unusual traffic|checking your browser|enable javascript and cookies|"
    r"access denied|security check|人机验证|安全验证|验证码",
    re.IGNORECASE,
)


class ValuePlace(NamedTuple):
    """Where a value stands. ``name``: such as ``span.price``, ``img.photo@src`` or
    ``$.offers.price``."""

    kind: str
    name: str


Texts = dict[ValuePlace, list[str]]
Places = dict[str, set[ValuePlace]]


class Document:
    """``text``: of a page. Parsed when it is first used."""

    def __init__(self, text: str, url: str) -> None:
        self._text, self.url = text[:MAX_TEXT].strip(), url

    @cached_property
    def _tree(self) -> LexborHTMLParser:
        return LexborHTMLParser(self._text)

    @cached_property
    def _read(self) -> tuple[Texts, Places, frozenset[str]]:
        """The texts at each place, the places of each key, and the names of all elements."""
        texts: defaultdict[ValuePlace, list[str]] = defaultdict(list)
        keys: defaultdict[str, set[ValuePlace]] = defaultdict(set)
        names = set()

        def add(place: ValuePlace, value: str) -> None:
            texts[place].append(value)
            for key in keys_of(value):
                keys[key].add(place)

        root = self._tree.root
        for node in islice(root.traverse() if root else (), MAX_NODES):
            if node.tag in UNSEEN:
                continue
            names.add(_own_name(node))
            name = _name_of(node)
            if value := _text_of(node):
                add(ValuePlace(TEXT, name), value)
            for attribute, given in node.attributes.items():
                if given and attribute not in SKIPPED and len(given) <= MAX_VALUE:
                    place = ValuePlace(ATTRIBUTE, f"{name}@{attribute}")
                    add(place, urljoin(self.url, given) if attribute in LINKS else given)
        for path, value in islice(self._json_values(), MAX_NODES):
            add(ValuePlace(JSON, path), value)
        return texts, keys, frozenset(names)

    def places_of(self, value: Any) -> set[ValuePlace]:
        """All places at which a value stands alone."""
        keys = self._read[1]
        return {place for key in keys_of(value) for place in keys.get(key, ())}

    def at(self, place: ValuePlace) -> list[str]:
        """The texts at a place."""
        return self._read[0].get(place, [])

    @property
    def names(self) -> frozenset[str]:
        """The names of its elements."""
        return self._read[2]

    @cached_property
    def language(self) -> str:
        """As its root declares it: ``de``; "" if it does not."""
        root = self._tree.css_first("html")
        found = root.attributes.get("lang") if root else ""
        return (found or "").strip().lower().partition("-")[0]

    @cached_property
    def visible(self) -> str:
        """Its text without scripts."""
        body = LexborHTMLParser(self._text).body
        if body is None:
            return ""
        for node in body.css(",".join(sorted(UNSEEN))):
            node.decompose()
        return " ".join(body.text(separator=" ").split())

    @cached_property
    def asks(self) -> str:
        """``challenge`` or ``login`` if it has signs of one; "" if not."""
        title = self._tree.css_first("title")
        if CHALLENGE.search(f"{title.text() if title else ''} {self.visible}"):
            return "challenge"
        return "login" if self._tree.css_first("input[type=password]") else ""

    def _json_values(self) -> Iterator[tuple[str, str]]:
        if self._text[:1] in "{[":
            for decoded in _json_in(self._text):
                yield from _leaves(decoded, "$")
        for script in self._tree.css("script")[:MAX_SCRIPTS]:
            for decoded in _json_in(script.text() or ""):
                yield from _leaves(decoded, "$")


def keys_of(value: Any) -> list[str]:
    """How a value is found again: as text, and as a number in each way that its text may be read.
    Of a list, the keys of its values."""
    if isinstance(value, list | tuple):
        return [key for one in value[:5] for key in keys_of(one)]
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int | float):
        return [f"#{float(value)!r}"]
    if not isinstance(value, str) or len(value) > MAX_VALUE:
        return []
    text = " ".join(value.split()).casefold()
    found = NUMBER.findall(text)
    others = re.sub(r"[\s\d.,'’]", "", text)
    numbers = numbers_of(found[0]) if len(found) == 1 and len(others) <= 4 else []
    return [*([text] if text else []), *(f"#{number!r}" for number in numbers)]


def numbers_of(text: str) -> list[float]:
    """The values that a number may have: ``1.299`` is 1.299 or 1299."""
    text = re.sub(r"[\s'’]", "", text)
    marks = [mark for mark in ".," if mark in text]
    forms = set()
    if len(marks) == 2:
        decimal = max(marks, key=text.rindex)
        thousands = "," if decimal == "." else "."
        forms.add(text.replace(thousands, "").replace(decimal, "."))
    elif marks and text.count(marks[0]) == 1:
        forms.add(text.replace(marks[0], "."))
        if len(text.partition(marks[0])[2]) == 3:
            forms.add(text.replace(marks[0], ""))
    else:
        forms.add(re.sub("[.,]", "", text))
    return sorted(float(form) for form in forms if form.count(".") < 2)


def is_telling(key: str) -> bool:
    """Whether a value is hardly found by accident."""
    if key.startswith("#"):
        return len(re.sub(r"\D|\.0$", "", key)) > 2
    return len(key) > 3


def currency_of(text: str) -> str:
    found = CURRENCY.search(text)
    return found[0] if found else ""


def decimal_of(text: str) -> str:
    """``,`` or ``.`` where a text has a number with two decimals; "" if not."""
    found = re.search(r"\d([.,])\d{2}(?!\d)", text)
    return found[1] if found else ""


def _own_name(node: LexborNode) -> str:
    given = node.attributes
    name = str(node.tag)
    if (own := given.get("id") or "") and not re.search(r"\d", own):
        name += f"#{own}"
    name += "".join(f".{one}" for one in sorted((given.get("class") or "").split())[:CLASSES])
    for naming in NAMING:
        if value := given.get(naming):
            return f"{name}[{naming}={value}]"
    return name


def _name_of(node: LexborNode) -> str:
    """The name of an element, after its next ancestor with a class or an id if it has none."""
    name, above = _own_name(node), node.parent
    for _ in range(ANCESTORS):
        if name != node.tag or above is None or above.tag in (None, "-undef", "html", "body"):
            return name
        if (its := _own_name(above)) != above.tag:
            return f"{its} {name}"
        above = above.parent
    return name


def _text_of(node: LexborNode) -> str:
    """The text of an element that has no others in it but inline ones of one level."""
    child, many = node.child, 0
    while child is not None:
        if child.tag != "-text":
            if child.child is not None and child.child.tag != "-text":
                return str(node.text(deep=False) or "").strip()
            many += 1
        child = child.next
    text = str(node.text(deep=many < 4) or "").strip()
    return text if len(text) <= MAX_VALUE else ""


def _json_in(text: str) -> Iterator[Any]:
    """The JSON values of a script: all of it, or its assignments."""
    decoder, place = json.JSONDecoder(), 0
    for _ in range(TRIES):
        if (found := OPENING.search(text, place)) is None:
            return
        start = found.start(1) if found[1] else found.start(2)
        try:
            value, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            place = start + 1
            continue
        yield value


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The values of JSON by their paths, without the places in lists."""
    left: list[tuple[str, Any]] = [(path, value)]
    while left:
        path, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{path}.{name}", one) for name, one in value.items()]
        elif isinstance(value, list):
            left += [(f"{path}[]", one) for one in value]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield path, repr(value)
        elif isinstance(value, str) and value and len(value) <= MAX_VALUE:
            yield path, value
