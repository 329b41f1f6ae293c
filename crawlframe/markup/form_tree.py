"""FormTree: the forms of a page with their controls, as the HTML parser of browsers connects them.

A control belongs to the form that was open when its tag was read, wherever the tree has it: a form
that a block or a table closed early is open up to its end tag (HTML standard, "form element
pointer" in 13.2.4.4, and 4.10.18.3). The tree does not show where end tags were, so the tags are
numbered in the source before it is parsed. An end tag leaves nothing in the tree; the same
characters in a text, a comment or an attribute do, with their number."""

from __future__ import annotations

import re
from copy import copy
from functools import cached_property
from typing import Any

from crawlframe.markup.links import FOREIGN

_NUMBER = "crawlframe-number"
_TAG = re.compile(rb"<(/?form|/?template|input|select|textarea|button)(?=[\s/>])", re.I)
_IN_TREE = re.compile(rf' {_NUMBER}=("?)(\d+)[" ]')


class FormTree:
    """The forms of a page. ``nodes``: the forms and controls by number; ``forms``: by the number of
    a form, its controls, in the order of the page."""

    def __init__(self, response: Any) -> None:
        self._names: list[str] = []  # of the tags, by number
        # A copy, so that selectors see the tree that they see on the page.
        page = self._page = copy(response)
        for name in vars(response):
            if isinstance(getattr(type(response), name, None), cached_property):
                del vars(page)[name]
        page.body = _TAG.sub(self._numbered, response._html)
        page.encoding, page.kind = "utf-8", "html"
        found = page.tree.css(f"[{_NUMBER}]:not({FOREIGN})")
        numbers = [self._number(node.tag, node.attrs[_NUMBER]) for node in found]
        self.nodes = {n: node for n, node in zip(numbers, found, strict=True) if n is not None}
        self._forms = {node.mem_id: n for n, node in self.nodes.items() if node.tag == "form"}
        self._open = self._open_forms()
        self.forms: dict[int, list[int]] = {form: [] for form in self._forms.values()}
        ids = {node.attrs["id"]: node.mem_id for node in reversed(page.tree.css("[id]"))}
        for number, node in self.nodes.items():
            named = "form" in node.attrs
            owner = (
                self._forms.get(ids.get(node.attrs["form"], 0)) if named else self._owner(number)
            )
            if owner is not None and node.tag != "form":
                self.forms[owner].append(number)

    def value(self, number: int, name: str) -> str:
        """An attribute as the page has it; "" if there is none."""
        return self.plain(self.nodes[number].attrs.get(name) or "")

    def plain(self, text: str) -> str:
        """A text as the page has it."""
        return _IN_TREE.sub("", text)

    def found(self, css: str | None, xpath: str | None = None) -> set[int]:
        """The numbers of the forms and controls that a selector finds, or that are around another
        element, or in it."""
        found = self._page.css(css) if css is not None else self._page.xpath(xpath or "")
        near = (self._near(one.root) for one in found if not isinstance(one.root, str))
        return {number for number in near if number is not None}

    def form_of(self, number: int) -> int | None:
        """The form that a form or control is, or belongs to. A tag that the parser ignores, such as
        a form in a form, belongs to the form that was open there."""
        owners = (form for form, owned in self.forms.items() if number in (form, *owned))
        return next(owners, self._open.get(number))

    def _numbered(self, tag: re.Match[bytes]) -> bytes:
        self._names.append(tag[1].decode().lower())
        return b"%b %b=%d " % (tag[0], _NUMBER.encode(), len(self._names) - 1)

    def _number(self, tag: Any, text: str | None) -> int | None:
        """The number of an element, unless the page wrote it itself."""
        known = text and re.fullmatch("[0-9]{1,9}", text) and int(text) < len(self._names)
        return int(text) if text and known and self._names[int(text)] == tag else None

    def _near(self, element: Any) -> int | None:
        near = (element, *element.iterancestors("form"), *element.iter())
        numbers = (self._number(one.tag, one.get(_NUMBER)) for one in near)
        return next((number for number in numbers if number is not None), None)

    def _open_forms(self) -> dict[int, int]:
        """The open form by the number of a tag."""
        marks = {int(text): bool(quoted) for quoted, text in _IN_TREE.findall(self._page.tree.html)}
        opened: dict[int, int] = {}
        form, templates = None, 0
        for number, name in enumerate(self._names):
            if name == "template":
                templates += marks.get(number, False)
            elif name == "/template" and number not in marks:
                templates = max(templates - 1, 0)
            elif name == "/form" and number not in marks and not templates:
                form = None
            elif name == "form" and number in self.nodes:
                form = number
            elif form is not None and not templates:
                opened[number] = form
        return opened

    def _owner(self, number: int) -> int | None:
        owner, above = self._open.get(number), self.nodes[number].parent
        while owner is None and above is not None:
            owner, above = self._forms.get(above.mem_id), above.parent
        return owner
