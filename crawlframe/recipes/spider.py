"""RecipeSpider: a recipe as a spider class. It runs as every other spider does."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from crawlframe.base.exact_json import digest_of
from crawlframe.base.urls import hostname_of, normalise
from crawlframe.errors import BadRequest
from crawlframe.recipes.extraction import (
    PLACE,
    RANGE,
    filled,
    links_of,
    page_scope,
    read,
    scopes,
    select,
)
from crawlframe.recipes.recipe import PLAIN, Argument, Detail, Field, Next, Recipe
from crawlframe.render.yielded import note_incomplete
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.spider import Spider

TYPES: dict[str, Any] = {
    "text": str,
    "int": int,
    "float": float,
    "bool": bool,
    "date": datetime.date,
    "url": Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri"})],
    "list": list[str],
}
MAX_PAGES = 10_000  # of a list


class RecipeDomains:
    """``allowed_domains`` of a recipe: domains of its start URLs are known with its arguments."""

    def __get__(self, spider: RecipeSpider | None, kind: type[RecipeSpider]) -> tuple[str, ...]:
        recipe = kind.recipe
        if not recipe.same_site:
            return ()
        urls = [RANGE.sub("1", url) for url in recipe.start_urls]
        if spider is not None:
            values = spider.argument_values()  # all of them, except where a recipe is only tried
            urls = [
                one
                for url in urls
                for one in (
                    filled(url, values) if values.keys() >= {*PLACE.findall(url)} else [url]
                )
            ]
        found = dict.fromkeys(recipe.allowed_domains)
        for url in urls:
            host = url.split("/", 3)[2:3]
            if host and not PLACE.search(host[0]):
                found[hostname_of(normalise(PLACE.sub("x", url))).removeprefix("www.")] = None
        return tuple(found)


class RecipeSpider(Spider):
    """The behaviour of all recipes. Requests carry only values that differ from the defaults of the
    callbacks, so that requests of an older version of a recipe fit a newer one."""

    recipe: ClassVar[Recipe]
    allowed_domains = RecipeDomains()

    def start(self) -> Iterator[Request]:
        carried = {} if self.recipe.start_items else {"items": False}
        for template in self.recipe.start_urls:
            for url in filled(template, self.argument_values()):
                yield Request(url, self.parse, cb_kwargs=carried)

    def parse(
        self,
        response: Response,
        follow: bool = True,
        items: bool = True,
        page: int = 1,
        before: bytes = b"",
    ) -> Iterator[Any]:
        """A page of start URLs, rules or a list. ``follow``: rules apply to it; ``items``: it has
        items; ``page``: its number in its list, from 1; ``before``: a digest of the items of the
        page before, if pages are numbered."""
        recipe = self.recipe
        parts = [*scopes(response, recipe.each)] if items else []
        yielded = [one for part in parts for one in self._item(part)]
        digest = digest_of([one.url if isinstance(one, Request) else one for one in yielded])
        if yielded and digest == before:  # a number beyond the last page
            self.stats.inc("repeated_pages")
            return
        yield from yielded
        if recipe.next is not None:
            found = digest if parts else b""
            yield from self.next_page(recipe.next, response, follow, items, page, found)
        for rule in recipe.rules if follow else ():
            carried = {
                name: False
                for name, value in (("follow", rule.follow), ("items", rule.items))
                if not value
            }
            for link in links_of(response, rule):
                yield Request(link, self.parse, cb_kwargs=carried)

    def parse_detail(self, response: Response, found: dict[str, Any]) -> Iterator[Any]:
        """The page of one item. ``found``: its fields on the list."""
        detail = self.recipe.detail
        if detail is None:  # the recipe has changed since
            yield found
            return
        own = self._values(detail.fields, page_scope(response))
        if self._complete(own, detail.required):
            yield found | own

    def _item(self, scope: Any) -> Iterator[Any]:
        recipe = self.recipe
        fields = recipe.fields or ({} if recipe.detail else PLAIN)
        values = self._values(fields, scope)
        if not self._complete(values, recipe.required):
            return
        if recipe.detail is None:
            yield values
            return
        link = self.detail_link(recipe.detail, scope)
        if link is None:
            self.stats.inc("without link to details")
            return
        try:
            yield scope.response.follow(link, self.parse_detail, cb_kwargs={"found": values})
        except BadRequest as error:
            self.stats.inc("without link to details")
            self.log.warning("%s", error)

    def detail_link(self, detail: Detail, scope: Any) -> str | None:
        """The link to the page of an item, None without one."""
        link = select(detail, scope)
        if link is None or not detail.url:
            return link
        return next(filled(detail.url, self.argument_values() | {"value": link}))

    def next_page(
        self, rule: Next, response: Response, follow: bool, items: bool, page: int, found: bytes
    ) -> Iterator[Request]:
        """The request for the next page of a list, if there is one. ``found``: a digest of the
        items of this page, b"" if no part of it is one."""
        values = self.argument_values() | {"page": rule.first + page}
        carried: dict[str, Any] = {"page": page + 1}
        if rule.css or rule.xpath or rule.jmespath or rule.regex:
            link = select(rule, page_scope(response))
            if link is None:
                return
            if rule.url:
                link = next(filled(rule.url, values | {"value": link}))
        elif items and not found:  # a number beyond the last page
            return
        else:
            link = next(filled(rule.url, values))
            carried["before"] = found
        if page >= (rule.limit or MAX_PAGES):
            self.stats.inc("walks_cut")
            return
        carried |= {} if follow else {"follow": False}
        carried |= {} if items else {"items": False}
        try:
            yield response.follow(link, self.parse, cb_kwargs=carried)
        except BadRequest as error:
            self.log.warning("the next page: %s", error)

    def _values(self, fields: dict[str, Field], scope: Any) -> dict[str, Any]:
        values = {}
        for name, field in fields.items():
            value, _, problem = read(field, scope)
            values[name] = value
            if problem:
                self.stats.inc(f"{name}: {problem}"[:100])
        return values

    def _complete(self, values: dict[str, Any], required: tuple[str, ...]) -> bool:
        for name in required:
            if values[name] in (None, "", []):
                self.stats.inc(f"without {name}"[:100])
                note_incomplete()
                return False
        return True

    def argument_values(self) -> dict[str, Any]:
        """The arguments of the task, by name."""
        return {name: getattr(self, name) for name in self.recipe.arguments if hasattr(self, name)}


def spider_of(recipe: Recipe, module: str, file: Path | None = None) -> type[RecipeSpider]:
    """The spider class of a recipe. ``module``: under which name it is refused or shown; ``file``:
    where it is."""
    words = "".join(part.capitalize() for part in recipe.name.replace("-", "_").split("_"))
    names: dict[str, Any] = {
        "__doc__": recipe.description,
        "__module__": module,
        "__annotations__": {name: _type(one) for name, one in recipe.arguments.items()},
        "name": recipe.name,
        "recipe": recipe,
        "settings": recipe.settings,
        "expect": recipe.expect or None,
        "_required": recipe.required + (recipe.detail.required if recipe.detail else ()),
    }
    for name, argument in recipe.arguments.items():
        if argument.default is not None:
            default = argument.default
            is_date = argument.type == "date"
            names[name] = datetime.date.fromisoformat(default) if is_date else default
    if file is not None:
        names["__file__"] = str(file)
    return type(words, (RecipeSpider,), names)


def _type(argument: Argument) -> Any:
    return Literal[argument.choices] if argument.choices else TYPES[argument.type]
