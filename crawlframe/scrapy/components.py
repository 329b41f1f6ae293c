"""Components: the middlewares and pipelines that a project adds to Scrapy's own, which ours
replace."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.conf import build_component_list
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.python import global_object_name

from crawlframe.base.signatures import is_async

DOWNLOADER = "DOWNLOADER_MIDDLEWARES"
SPIDER = "SPIDER_MIDDLEWARES"
PIPELINES = "ITEM_PIPELINES"
# Components of Scrapy that do more than settings of ours.
KEPT = ("scrapy.spidermiddlewares.referer.RefererMiddleware",)


def named(settings: BaseSettings, setting: str) -> list[Any]:
    """The classes that a setting lists, or their paths, in order, without Scrapy's own that ours
    replace."""
    listed = build_component_list(settings.get_component_priority_dict_with_base(setting))
    return [one for one in listed if not is_replaced(one)]


def load(settings: BaseSettings) -> list[type]:
    """Imports the components of all settings, so that their modules belong to the code that is
    watched. Returns the classes that are not Scrapy's. Raises errors of their modules."""
    loaded = [
        load_object(one)
        for setting in (DOWNLOADER, SPIDER, PIPELINES, "EXTENSIONS")
        if settings.getdict(setting)
        for one in named(settings, setting)
    ]
    kinds = [one for one in loaded if isinstance(one, type)]
    return [one for one in kinds if not one.__module__.startswith("scrapy.")]


def is_replaced(one: Any) -> bool:
    path = one if isinstance(one, str) else global_object_name(one)
    own = path.startswith(("scrapy.downloadermiddlewares.", "scrapy.spidermiddlewares."))
    return own and path not in KEPT


def made(crawler: Any, setting: str) -> list[Any]:
    """The objects of a setting, except components that raise NotConfigured."""
    objects = []
    for one in named(crawler.settings, setting):
        try:
            objects.append(build_from_crawler(load_object(one), crawler))
        except NotConfigured:
            continue
    return objects


def method(component: Any, name: str, spider: Any) -> Callable[..., Any] | None:
    """A method, which gets the spider if it must have it: before 2.14, Scrapy passed it to all."""
    function: Callable[..., Any] | None = getattr(component, name, None)
    if function is None:
        return None
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return function
    if "spider" not in parameters or parameters["spider"].default is not inspect.Parameter.empty:
        return function

    def with_spider(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named, spider=spider)

    return with_spider


def methods(listed: list[Any], name: str, spider: Any) -> list[Callable[..., Any]]:
    """The method of each component that has it."""
    return [found for one in listed if (found := method(one, name, spider)) is not None]


def waits(component: Any, name: str) -> bool:
    """Whether a method is a coroutine or an async generator."""
    return is_async(getattr(component, name, None))
