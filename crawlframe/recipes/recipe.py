"""Recipe: the parts of a spider without code.

Its parts are the usual ones of declarative crawlers: links of the same site, titles, and rules that
take values out of the DOM, as in Gao Yumin and Zhai Haoran, "A distributed crawler system based on
Node.js" (2019)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Texts = tuple[str, ...]
ArgumentType = Literal["text", "int", "float", "bool", "date", "url", "list"]
PageValue = Literal[
    "url", "title", "text", "links", "same_site_links", "status", "content_type", "size"
]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a recipe. Defaults are not written."""


class Select(Part, frozen=True):
    """A place on a page: exactly one of the three."""

    css: str = ""
    xpath: str = ""
    jmespath: str = ""


class Field(Part, frozen=True):
    """A value of an item. The steps are in this order: ``css`` or ``xpath`` selects in the markup,
    ``jmespath`` in JSON, ``regex`` finds in the text. ``page`` is a value of the page itself, in
    place of the first two. ``convert``: names of converters, in order."""

    css: str = ""
    xpath: str = ""
    jmespath: str = ""
    regex: str = ""
    page: PageValue | Literal[""] = ""
    attribute: str = ""  # of the element that css or xpath selects, in place of its text
    convert: Texts = ()
    default: Any = None  # used when nothing is found


class LinkRule(Part, frozen=True):
    """A rule for the links of a page. Without ``allow``, all are followed; the restrictions name
    the parts of the page that are searched for links. ``follow``: whether the rules apply to the
    pages that the links lead to; ``items``: whether those pages have items."""

    allow: Texts = ()
    deny: Texts = ()
    restrict_css: Texts = ()
    restrict_xpath: Texts = ()
    follow: bool = True
    items: bool = True


class Next(Part, frozen=True):
    """The next page of a list: a link that is selected, or ``url`` with {value} for the selected
    value, or with {page} for its number. ``limit``: pages of one list; 0 = 10,000."""

    css: str = ""
    xpath: str = ""
    jmespath: str = ""
    regex: str = ""
    url: str = ""
    first: int = 1  # the number of the first page of the list
    limit: int = 0


class Detail(Part, frozen=True):
    """A page of its own for each item: the link to it, and the fields that it adds."""

    css: str = ""
    xpath: str = ""
    jmespath: str = ""
    url: str = ""  # with {value} for the selected value
    fields: dict[str, Field] = {}
    required: Texts = ()


class Argument(Part, frozen=True):
    """An argument of a task, which URLs may name in braces. Without a default it is required."""

    type: ArgumentType = "text"
    default: Any = None
    choices: Texts = ()


class Recipe(Part, frozen=True):
    """A whole spider. ``each`` selects the parts of a page that are items; without it a page is one
    item. An item that lacks a ``required`` field is not stored. ``start_items``: whether start
    pages have items."""

    name: str
    start_urls: Texts
    description: str = ""
    same_site: bool = True  # only hosts of the start URLs, and those below them
    allowed_domains: Texts = ()  # further hosts
    each: Select | None = None
    fields: dict[str, Field] = {}
    required: Texts = ()
    start_items: bool = True
    rules: tuple[LinkRule, ...] = ()
    next: Next | None = None
    detail: Detail | None = None
    settings: dict[str, Any] = {}
    expect: dict[str, Any] = {}  # keys of Expect
    arguments: dict[str, Argument] = {}


# The fields of an item for which none are given.
PLAIN = {"url": Field(page="url"), "title": Field(page="title")}


def as_data(recipe: Recipe) -> dict[str, Any]:
    """The recipe as the data of a file, without defaults."""
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(recipe))
    return data


def as_text(recipe: Recipe) -> str:
    """The recipe as the text of a .json file. The order of settings means nothing."""
    recipe = msgspec.structs.replace(recipe, settings=dict(sorted(recipe.settings.items())))
    return msgspec.json.format(msgspec.json.encode(recipe), indent=2).decode() + "\n"
