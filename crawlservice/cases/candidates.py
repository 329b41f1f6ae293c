"""Candidates: expressions for the places of a page at which a value stands, each with its cost: the
simpler and the more telling its names, the lower."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from crawlframe.markup.structured_data import JSON_LD as JSON_LD_TYPE
from crawlframe.markup.structured_data import decoded_block
from crawlservice.cases.document import MAX_NODES, MAX_VALUE, SKIPPED, UNSEEN
from crawlservice.cases.expressions import (
    ASSIGNED,
    BODY,
    CSS,
    EACH,
    LABELLED,
    LINKED,
    SCRIPT,
    Expression,
    JsonPath,
    ReadPage,
    decoded,
    jmespath_of,
    same_keys,
)

POSITION = 12  # the cost from which on an expression counts elements
MAX_HITS = 12  # places of a page, in markup and in JSON, that are looked at
MAX_WITHIN = 6  # elements in one whose text may be a value
MAX_ABOVE = 8  # ancestors that may have a name
MAX_NAMED = 3  # of which names are used
NAMING = frozenset({"itemprop", "property", "name", "slot", "rel"})  # and data-*
LANDMARKS = frozenset({"main", "article", "header", "dl", "table", "nav", "figure", "del", "ins"})
LABELS = frozenset({"dt", "th", "label", "td", "b", "strong", "span"})
TELLING = frozenset({"h1", "title", "time", "ins"})  # tags that pages have few of
NAME = re.compile(r"-?[A-Za-z_][A-Za-z0-9_-]*")
MADE_PREFIX = re.compile(r"(?:css|sc|jsx|jss\d*|svelte|emotion|styles?)-(?=.*[0-9A-Z])|_")
ASSIGNMENT = re.compile(r"(?:window|self|globalThis)(?:\.\w+|\[\"\w+\"\])\s*=\s*(?=[{\[])"
                        r"|(?:var|let|const)\s+\w+\s*=\s*(?=[{\[])")  # fmt: skip

Costs = dict[Expression, int]


def is_made(name: str) -> bool:
    """Whether a class or an id looks as if a program had made it, so that it may differ in the next
    build: ``css-1q2w3e``, ``price__3xK9d``, ``sc-bdVaJa``; or says nothing: ``mt-4``."""
    if not NAME.fullmatch(name) or MADE_PREFIX.match(name):
        return True
    for part in re.split(r"[-_]+", name):
        digits = any(map(str.isdigit, part))
        if part.isdigit() or (digits and len(part) >= 5):
            return True
        if len(part) >= 4 and not re.search(r"[aeiouyAEIOUY]", part) and part != part.lower():
            return True
    return False


def candidates(page: ReadPage, wanted: frozenset[str], *, many: bool) -> Costs:
    """``wanted``: keys of values. ``many``: the page has several of them. Raises CrawlframeError
    for a page that cannot be parsed."""
    found: Costs = {}

    def add(one: Expression, cost: int) -> None:
        found[one] = min(cost, found.get(one, cost))

    most, hits = 10 * MAX_HITS if many else MAX_HITS, 0
    is_json = page.response.kind == "json"
    for one, cost, value in islice(_of_body(page) if is_json else _of_scripts(page), MAX_NODES):
        if wanted & same_keys(value, page.page.url) and hits < most:
            hits += 1
            every = tuple(EACH if isinstance(key, int) else key for key in one.path)
            add(one._replace(path=every) if many else one, cost)
    if is_json:
        return found
    for place in islice(_places(page, wanted), most):
        for where, cost in _selectors(place):
            one = Expression(CSS, where, place.attribute, place.own, labelled=place.labelled)
            add(one, cost + (not place.own and not place.attribute) + 2 * place.labelled)
    return found


# -- markup ----------------------------------------------------------------------------------------


class ElementPlace(NamedTuple):
    """An element with a value: in an attribute, or its text; see Expression."""

    element: Any
    attribute: str = ""
    own: bool = False
    labelled: bool = False


def _places(page: ReadPage, wanted: frozenset[str]) -> Iterator[ElementPlace]:
    base = page.page.url
    for element in islice(page.response.selector.root.iter(), MAX_NODES):
        if not isinstance(element.tag, str) or element.tag in UNSEEN:
            continue
        for name, value in element.attrib.items():
            skipped = name in SKIPPED or len(value) > MAX_VALUE
            if not skipped and wanted & same_keys(value, base, name):
                yield ElementPlace(element, name)
        own = [element.text or "", *(child.tail or "" for child in element[:MAX_WITHIN])]
        first = next((text for text in own if text.strip()), "")
        if fit := _fit(first, wanted):
            yield ElementPlace(element, "", not own[0] or bool(own[0].strip()), fit == LABEL)
        elif 0 < sum(1 for _ in islice(element.iterdescendants(), MAX_WITHIN + 1)) <= MAX_WITHIN:
            text = _text_of(element)
            inner = any(_text_of(one) == text for one in element)
            if not inner and (fit := _fit(text, wanted)):
                yield ElementPlace(element, labelled=fit == LABEL)


def _text_of(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


WHOLE, LABEL = "whole", "label"


def _fit(text: str, wanted: frozenset[str]) -> str:
    """Whether a text is a wanted value, or has it after a label; "" if neither."""
    if not text or len(text) > MAX_VALUE:
        return ""
    if wanted & same_keys(text):
        return WHOLE
    after = LABELLED.search(text)
    return LABEL if after and wanted & same_keys(after[1]) else ""


def _selectors(place: ElementPlace) -> Iterator[tuple[str, int]]:
    """CSS selectors of an element alone, and below its named ancestors."""
    element = place.element
    own = _own_selectors(element, place.attribute)
    alone = element.tag not in TELLING
    yield from ((one, cost + 6 * (alone and one == element.tag)) for one, cost in own)
    named, above = 0, element.getparent()
    for _ in range(MAX_ABOVE):
        if above is None or named == MAX_NAMED:
            return
        names = [*_names(above)]
        if above.tag in LANDMARKS:
            names.append((above.tag, 2))
        named += bool(names)
        for name, cost in names[:2]:
            yield from ((f"{name} {one}", cost + its + 3) for one, its in own)
        above = above.getparent()


def _own_selectors(element: Any, attribute: str) -> list[tuple[str, int]]:
    tag = element.tag
    found = [*_names(element)]
    if attribute.startswith("data-") or attribute in ("datetime", "content"):
        found.append((f"{tag}[{attribute}]", 2))
    classes = [*filter(NAME.fullmatch, element.get("class", "").split())]
    stable = [one for one in classes if not is_made(one)]
    if stable and stable == classes:
        found.append((f'[class="{element.get("class")}"]', 5))  # without others
    found += [("".join(f".{one}" for one in stable[:2]), 4)] if len(stable) > 1 else []
    found.append((tag, 5))
    before = element.getprevious()
    if label := _label_of(before):
        cost = 4 if before.tag in LABELS else 9
        found.append((f'{before.tag}:contains("{label}") + {tag}', cost))
    if label := _label_of(element[0] if len(element) and not attribute else None):
        found.append((f'{tag}:contains("{label}")', 5))
    parent = element.getparent()
    if parent is not None and isinstance(parent.tag, str):
        place = 1 + sum(1 for one in element.itersiblings(tag, preceding=True))
        above = next((name for name, _ in _names(parent)), parent.tag)
        found.append((f"{above} > {tag}:nth-of-type({place})", POSITION))
    return found


def _label_of(element: Any) -> str:
    """The text of an element that may be the label of the next one; "" if it is none."""
    if element is None or not isinstance(element.tag, str):
        return ""
    label = " ".join((element.text or "").split())
    return label if re.fullmatch(r"[^\W\d_][^\d\"\\]{1,29}", label) else ""


def _names(element: Any) -> Iterator[tuple[str, int]]:
    """Selectors by which an element says itself what it is."""
    tag, given = element.tag, element.attrib
    for name, value in given.items():
        naming = name in NAMING or name.startswith("data-")
        if naming and re.fullmatch(r"[A-Za-z][\w:. -]{0,40}", value):
            yield f'[{name}="{value}"]', 0 if name == "itemprop" else 1
    if (own := given.get("id")) and not is_made(own) and not re.search(r"\d", own):
        yield f"#{own}", 1
    for one in given.get("class", "").split():
        if not is_made(one):
            yield f".{one}", 2
            yield f"{tag}.{one}", 3


# -- JSON ------------------------------------------------------------------------------------------

Places = Iterator[tuple[Expression, int, Any]]


def _of_body(page: ReadPage) -> Places:
    for path, value in _leaves(page.response.json()):
        yield Expression(BODY, path=path), len(path), value


def _of_scripts(page: ReadPage) -> Places:
    for script in page.response.tree.css("script"):
        text, given = script.text() or "", script.attributes
        kind = (given.get("type") or "").partition(";")[0].strip().lower()
        if kind == JSON_LD_TYPE:
            yield from _of_linked(text)
        elif text.lstrip()[:1] in ("{", "["):
            where = _script_of(given)
            for data in decoded(text) if where else ():
                for path, value in _leaves(data):
                    yield Expression(SCRIPT, where, path=path), 3 + len(path), value
        else:
            yield from _assigned(text)
    for where, text in _attributes_of_json(page):
        for data in decoded(text):
            for path, value in _leaves(data):
                yield Expression(SCRIPT, where, path=path), 4 + len(path), value


def _attributes_of_json(page: ReadPage) -> Iterator[tuple[str, str]]:
    for element in islice(page.response.selector.root.iter(), MAX_NODES):
        for name, text in element.attrib.items() if isinstance(element.tag, str) else ():
            if text[:1] in ("{", "["):
                where = next((one for one, _ in _names(element)), element.tag)
                yield f"{where}::attr({name})", text


def _script_of(given: Any) -> str:
    own, kind = given.get("id") or "", given.get("type") or ""
    if NAME.fullmatch(own) and (own.startswith("__") or not is_made(own)):
        return f"script#{own}::text"
    return f'script[type="{kind}"]::text' if re.fullmatch(r"[\w/+.-]+", kind) else ""


def _assigned(text: str) -> Places:
    for begin in islice(ASSIGNMENT.finditer(text), 20):
        for data in decoded(text[begin.end() :], whole=False):
            for path, value in _leaves(data):
                yield Expression(ASSIGNED, begin[0], path=path), 8 + len(path), value


def _of_linked(text: str) -> Places:
    try:
        block = decoded_block(text)
    except (ValueError, RecursionError):
        return
    for path, value in _leaves(block):
        types = [(n, kind) for n in range(len(path) + 1) if (kind := _type_at(block, path[:n]))]
        for n, kind in types[-2:]:  # the nearest object, and the one around it
            within = _within(path, n, kind)
            one = Expression(LINKED, kind, path=path[n:], within=within)
            yield one, 1 + len(path) - n, value


def _type_at(value: Any, path: JsonPath) -> str:
    for key in path:
        value = value[key]
    kind = value.get("@type") if isinstance(value, dict) else ""
    kind = kind[0] if isinstance(kind, list) and kind else kind
    return kind if isinstance(kind, str) else ""


def _within(path: JsonPath, n: int, kind: str) -> str:
    """The JMESPath in a block, by the type where the object is in a list."""
    if n and isinstance(path[n - 1], int):
        tail = jmespath_of(path[n:])
        return f"{jmespath_of(path[: n - 1])}[?\"@type\"=='{kind}'].{tail}"
    return jmespath_of(path)


def _leaves(value: Any) -> Iterator[tuple[JsonPath, Any]]:
    """The texts and numbers of JSON with their paths."""
    left: list[tuple[JsonPath, Any]] = [((), value)]
    while left:
        path, value = left.pop()
        if isinstance(value, dict):
            left += [((*path, name), one) for name, one in reversed(value.items())]
        elif isinstance(value, list):
            left += [((*path, n), one) for n, one in reversed([*enumerate(value)])]
        elif isinstance(value, str | int | float) and not isinstance(value, bool) and path:
            yield path, value
