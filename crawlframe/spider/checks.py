"""Misuse: mistakes in a spider class that would show only when it runs."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

from crawlframe.base import scrapy_names
from crawlframe.base.signatures import misfit, parameters, required
from crawlframe.items import pipelines
from crawlframe.request.request import END_CALLBACK
from crawlframe.spider import middleware

# Methods that are called for each request or page, with their arguments.
_HOOKS = {
    "follow": ("request", "response"), "is_blocked": ("response",), "near_text": ("response",),
}  # fmt: skip
_OWN = ("log", "stats", "expect", "proxy", "revisit")  # no arguments can have these names


def misuse_of(spider: type[Any], base: type[Any]) -> str:
    """Return a mistake that would show only when the spider runs, often silently; "" if none.
    ``base`` is Spider."""
    if isinstance(spider.start_urls, str | bytes):
        return 'start_urls must be a list of URLs, such as ["https://example.com/"]'
    if isinstance(spider.allowed_domains, str | bytes):
        return 'allowed_domains must be a list of host names, such as ["example.com"]'
    if isinstance(spider.allowed_domains, list | tuple | set | frozenset):
        for domain in spider.allowed_domains:
            if problem := _no_host_name(domain):
                return f"allowed_domains: {problem}"
    if problem := scrapy_names.misuse_of(spider) or pipelines.misuse_of(spider.pipelines):
        return problem
    if problem := middleware.misuse_of(spider.middlewares) or _misuse_of_item(spider, base):
        return problem
    for name, arguments in _HOOKS.items():
        if problem := _misuse_of_hook(spider, base, name, arguments):
            return problem
    if "web_poet" in sys.modules:  # else it has no page objects
        from crawlframe.spider import page_objects

        if problem := page_objects.misuse_of(spider):
            return problem
    for name, argument in (("opened", "task"), (END_CALLBACK, "summary")):
        if problem := _unfit_hook(spider, name, argument):
            return problem
    for name in ("proxies", "proxy_limits"):
        if isinstance(getattr(spider, name, None), str | tuple | list) and not any(
            name in inspect.get_annotations(kind) for kind in spider.__mro__
        ):
            return f'{name} is none: write proxy = "pool", or settings = {{"proxy_limits": ...}}'
    for kind in spider.__mro__:
        for name, note in inspect.get_annotations(kind).items():
            if name in _OWN and "ClassVar" not in str(note):
                return f"{name} is a name of Spider's own; rename the argument"
    if needed := _needed_to_make(spider):
        return (
            f"__init__ must work without arguments, and needs {needed}; arguments of a task are "
            "parameters of start or annotated class attributes"
        )
    inherits = spider.start is base.start and spider.parse is base.parse
    if inherits and spider.start_urls:
        return "the pages of start_urls go to the method parse; write one, or a start of its own"
    return ""


def _misuse_of_hook(
    spider: type[Any], base: type[Any], name: str, arguments: tuple[str, ...]
) -> str:
    """The problem of a hook's method; "" if none. A method or an attribute may have had this name
    before it meant something."""
    hook = getattr(spider, name)
    if hook is getattr(base, name):
        return ""
    words = f"{name} is called with each {arguments[0]}, as {name}(self, {', '.join(arguments)})"
    if not callable(hook) or inspect.iscoroutinefunction(hook):
        return f"{words}; it must be a plain method"
    if inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
        return f"{words}, and returns one result; it yields"
    return f"{words}: {problem}" if (problem := misfit(hook, None, *arguments)) else ""


def _misuse_of_item(spider: type[Any], base: type[Any]) -> str:
    """A callback or an argument may have had this name before it meant something."""
    for owner in spider.__mro__:
        note = inspect.get_annotations(owner).get("item")
        if note is not None and owner is not base and "ClassVar" not in str(note):
            return "item is the class of the items of a Spider; rename the argument"
    if spider.item is None or inspect.isroutine(spider.item):
        return ""
    from crawlframe.items import item_type

    return item_type.misuse_of(spider.item)


def _unfit_hook(spider: type[Any], name: str, argument: str) -> str:
    """Why a method called at the beginning or end of a task cannot be called; "" when it can."""
    hook = getattr(spider, name, None)
    if not callable(hook):
        return ""
    if misfit(hook, *([None] if inspect.isfunction(hook) else []), None):
        return f"{name} must take one argument: {name}(self, {argument})"
    if name == END_CALLBACK and "reason" in parameters(hook):
        return "closed(self, reason) is Scrapy's; write closed(self, summary): summary.reason"
    return ""


def _no_host_name(domain: Any) -> str:
    if not isinstance(domain, str):
        return f"{domain!r} is not text; write host names, such as example.com"
    if re.fullmatch(r"[^/:]*|\[[^/\]]+\]", domain):  # the latter is an IPv6 address
        return ""
    host = re.split(r"[/:]", domain.partition("//")[2] or domain)[0]
    return f"{domain!r} is not a host name; write {host or 'one such as example.com'}"


def _needed_to_make(spider: type[Any]) -> str:
    """Return the required arguments of ``__init__``, as text."""
    made: Any = spider
    plain = made.__init__ is object.__init__ and made.__new__ is object.__new__
    if plain and type(spider) is type:
        return ""  # the check is slow, and not needed for a class that defines nothing of its own
    return required(spider)
