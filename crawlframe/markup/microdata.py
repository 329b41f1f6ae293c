"""Microdata: the items of an HTML page, by section 5.2 of the WHATWG HTML standard."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crawlframe.base.urls import join
from crawlframe.errors import TooComplex

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_VALUES = 200_000  # of all items of a page, also where one item is the value of several others

MAX_TEXT = 32 << 20  # characters of all values together; elements with values may be nested

_ADDRESSES = dict.fromkeys(("audio", "embed", "iframe", "img", "source", "track", "video"), "src")
_ADDRESSES |= {"a": "href", "area": "href", "link": "href", "object": "data"}
_VALUES = {"data": "value", "meter": "value", "time": "datetime"}

Item = dict[str, Any]


def items_of(tree: LexborHTMLParser, base_url: str, url: str) -> list[Item]:
    """The items that are no values of others, in the form of JSON-LD. ``url`` is for messages.
    Raises TooComplex if items contain themselves, or each other too often."""
    return _Reader(tree, base_url, url).items()


def add(item: Item, name: str, value: Any) -> None:
    """Adds a value; from the second one on, the values of a name are a list."""
    if name not in item:
        item[name] = value
    elif isinstance(item[name], list):
        item[name].append(value)
    else:
        item[name] = [item[name], value]


class _Reader:
    """Finds elements with selectors, and the item of a property by walking up, so that a page is
    read in linear time, and without recursion."""

    def __init__(self, tree: LexborHTMLParser, base_url: str, url: str) -> None:
        self._tree, self._base_url, self._url = tree, base_url, url
        self._scopes = tree.css("[itemscope]")
        self._items = {one.mem_id: self._head(one) for one in self._scopes}
        self._owners: dict[int, int] = {}  # element -> the item that it is in, 0 for none
        self._read = self._size = 0

    def items(self) -> list[Item]:
        if not self._items:
            return []
        for element in self._tree.css("[itemprop]"):
            if owner := self._owner(element):
                self._set(self._items[owner], element)
        for scope in self._scopes:
            for name in (scope.attributes.get("itemref") or "").split():
                self._refer(scope, name)
        tops = [one for one in self._scopes if "itemprop" not in one.attributes]
        items = [self._items[one.mem_id] for one in tops]
        self._check(items)
        return items

    def _head(self, scope: LexborNode) -> Item:
        item: Item = {}
        types = (scope.attributes.get("itemtype") or "").split()
        if types:
            context, slash, _ = types[0].rpartition("#" if "#" in types[0] else "/")
            prefix = context + slash
            if context:
                item["@context"] = context if slash == "/" else prefix
            names = [one.removeprefix(prefix) for one in types]
            item["@type"] = names[0] if len(names) == 1 else names
        if identity := scope.attributes.get("itemid"):
            item["@id"] = join(self._base_url, identity) or identity
        return item

    def _owner(self, element: LexborNode) -> int:
        """The nearest item above an element."""
        walked: list[int] = []
        owner, above = 0, element.parent
        while above is not None:
            at = above.mem_id
            if at in self._items:
                owner = at
                break
            if at in self._owners:
                owner = self._owners[at]
                break
            walked.append(at)
            above = above.parent
        self._owners.update(dict.fromkeys(walked, owner))
        return owner

    def _refer(self, scope: LexborNode, identity: str) -> None:
        """Adds the properties of an element elsewhere on the page."""
        element = self._ids.get(identity)
        if element is None:
            return
        around = self._owner(element)
        if around == scope.mem_id:
            return  # it has them already
        for one in element.css("[itemprop]"):
            self._count()
            if self._owner(one) == around:
                self._set(self._items[scope.mem_id], one)

    @cached_property
    def _ids(self) -> dict[str, LexborNode]:
        found: dict[str, LexborNode] = {}
        for one in self._tree.css("[id]"):
            found.setdefault(one.attributes["id"] or "", one)
        return found

    def _set(self, item: Item, element: LexborNode) -> None:
        value = self._value(element)
        for name in dict.fromkeys((element.attributes["itemprop"] or "").split()):
            self._count()
            add(item, name, value)

    def _value(self, element: LexborNode) -> Any:
        if element.mem_id in self._items:
            return self._items[element.mem_id]
        tag, given = element.tag or "", element.attributes
        address = given.get(_ADDRESSES.get(tag, ""))
        if address is not None:
            return join(self._base_url, address) or address
        for name in (_VALUES.get(tag, ""), "content"):  # on any element, as search engines read it
            value = given.get(name)
            if value is not None:
                return value
        text = element.text()
        self._size += len(text)
        if self._size > MAX_TEXT:
            raise TooComplex(f"{self._url}: the values of its microdata are longer than {MAX_TEXT}")
        return " ".join(text.split())

    def _count(self) -> None:
        self._read += 1
        if self._read > MAX_VALUES:
            raise self._too_many()

    def _too_many(self) -> TooComplex:
        return TooComplex(f"{self._url}: its microdata has more than {MAX_VALUES} values")

    def _check(self, items: list[Item]) -> None:
        """Raises TooComplex if an item contains itself, or if there are too many values when each
        item is written out wherever it is one."""
        sizes: dict[int, int] = {}  # of items that are done
        begun: set[int] = set()
        left = items[::-1]
        while left:
            item = left[-1]
            within = [one for one in _values_of(item) if isinstance(one, dict)]
            if id(item) not in begun:
                begun.add(id(item))
                for one in within:
                    if id(one) not in begun:
                        left.append(one)
                    elif id(one) not in sizes:
                        raise TooComplex(f"{self._url}: an item of its microdata contains itself")
                continue
            left.pop()
            if id(item) not in sizes:
                size = sum(1 for _ in _values_of(item)) + sum(sizes[id(one)] for one in within)
                sizes[id(item)] = size
        if sum(sizes[id(item)] for item in items) > MAX_VALUES:
            raise self._too_many()


def _values_of(item: Item) -> Iterator[Any]:
    for value in item.values():
        yield from value if isinstance(value, list) else [value]
