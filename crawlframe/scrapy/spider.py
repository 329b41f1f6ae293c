"""PortedSpider: a spider of Scrapy as one of ours.

The arguments of a Scrapy spider, which are text: the parameters of its ``__init__``, names that its
methods read of ``self`` or ``kwargs`` though nothing sets them, and names that its class has a
value for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import msgspec
from scrapy.settings import Settings

from crawlframe.errors import SpiderError
from crawlframe.scrapy import components
from crawlframe.scrapy.downloads import DownloadsOfTasks
from crawlframe.scrapy.port import Port
from crawlframe.scrapy.reading import ClassSource
from crawlframe.scrapy.requests import PREFIX
from crawlframe.scrapy.settings import Mapped, mapped, merged, theirs
from crawlframe.scrapy.shared import shared_by
from crawlframe.spider.spider import Spider, read_settings
from crawlframe.spider.task_info import Summary, TaskInfo
from crawlframe.spider.task_settings import overridden

Given = str | msgspec.UnsetType
# Scrapy sets them on the object, or reads them of the class.
_NAMES = frozenset(
    {
        "allowed_domains", "crawler", "custom_settings", "download_delay", "download_maxsize",
        "download_timeout", "expect", "handle_httpstatus_list", "max_concurrent_requests", "name",
        "rules", "settings", "start_urls", "user_agent",
    }
)  # fmt: skip


class PortedSpider(Spider):
    """Base of the classes that ``ported`` makes. An object has the Scrapy spider of its task in
    ``_port``; methods that are looked up on it are callbacks that run that spider's."""

    scrapy_class: ClassVar[type]
    scrapy_settings: ClassVar[Settings]
    scrapy_source: ClassVar[ClassSource]
    scrapy_mapped: ClassVar[Mapped]
    scrapy_state: ClassVar[list[str]]  # state that is kept in memory, each with its place

    _port: Port | None = None

    @classmethod
    def _make(
        cls, arguments: dict[str, Any], overrides: Mapping[str, Any] = MappingProxyType({})
    ) -> PortedSpider:
        made = cls()
        given = {name: value for name, value in arguments.items() if value is not msgspec.UNSET}
        settings = cls.scrapy_settings
        if overrides:
            checked = overridden(read_settings(cls), overrides)
            settings = settings.copy()
            settings.setdict(theirs(checked, overrides), priority="cmdline")
        made._port = Port(made, cls.scrapy_class, settings, given)
        made.allowed_domains = made._port.allowed_domains  # type: ignore[misc]
        made.pipelines = [made._port.items]  # type: ignore[misc]
        return made

    async def opened(self, task: TaskInfo) -> None:
        port = self._opened_port()
        for middleware in type(self).middlewares:
            if isinstance(middleware, DownloadsOfTasks):
                middleware.tasks[task.id] = port
        await port.open()

    async def closed(self, summary: Summary) -> None:
        await self._opened_port().end(summary)

    async def _release(self) -> None:
        if self._port is not None:
            await self._port.release()

    @property
    def parse(self) -> Any:
        return self._opened_port().method("parse")

    def _opened_port(self) -> Port:
        if self._port is None:
            raise SpiderError(f"spider {self.name!r} of Scrapy runs only in a task")
        return self._port

    def __getattr__(self, name: str) -> Any:
        port = self.__dict__.get("_port")
        method = port and not name.startswith("__") and port.method(name.removeprefix(PREFIX))
        if not method:
            raise AttributeError(f"spider {self.name!r} has no method {name!r}")
        return method


def ported(kind: type, settings: Settings) -> type[PortedSpider]:
    """The class of ours for a spider class of Scrapy in a project with these settings. Raises
    errors of its class methods."""
    own = merged(kind, settings)
    source = ClassSource(kind)
    state = shared_by([kind, *components.load(own)])
    chosen = own.get("CRAWLFRAME_WORKERS")
    workers = int(bool(state)) if chosen is None else int(chosen)
    result = mapped(own, kind)
    layered = bool(own.getdict(components.DOWNLOADER)) or any(
        getattr(kind, f"http_{name}", "") or own.get(f"HTTPAUTH_{name.upper()}")
        for name in ("user", "pass")
    )
    namespace = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": inspect.cleandoc(vars(kind).get("__doc__") or ""),
        "name": vars(kind).get("name") or getattr(kind, "name", ""),
        "settings": result.settings,
        "middlewares": [DownloadsOfTasks()] if layered else [],
        "expect": getattr(kind, "expect", None) or own.get("CRAWLFRAME_EXPECT"),
        "workers": workers or None,
        "_own_process": workers == 1,
        "scrapy_class": kind,
        "scrapy_settings": settings,
        "scrapy_source": source,
        "scrapy_mapped": result,
        "scrapy_state": state,
        "start": start_with(parameters_of(kind, source)),
    }
    return type(kind.__name__, (PortedSpider,), namespace)


def parameters_of(spider: type, source: ClassSource) -> dict[str, inspect.Parameter]:
    """The arguments by name; those without a default must be given."""
    found: dict[str, inspect.Parameter] = {}
    for kind in spider.__mro__:
        made = vars(kind).get("__init__")
        if made is None or kind.__module__.startswith("scrapy."):
            continue
        try:
            parameters = [*inspect.signature(made).parameters.values()][1:]
        except ValueError:
            continue
        for one in parameters:
            if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and one.name != "name":
                needed = one.default is one.empty and one.name not in found
                found.setdefault(one.name, _parameter(one.name, one.default, needed))
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            break
    else:
        unset = [name for name in source.unset if not hasattr(spider, name)]
        for name in [*unset, *_values(spider)]:
            if name not in found and name not in _NAMES:
                found[name] = _parameter(name, getattr(spider, name, None), False)
    return found


def _values(spider: type) -> list[str]:
    """The attributes that Scrapy's ``__init__`` replaces by arguments of their names."""
    own = [one for one in spider.__mro__ if not one.__module__.startswith(("scrapy.", "builtins"))]
    return [
        name
        for kind in reversed(own)
        for name, value in vars(kind).items()
        if name[0] != "_" and not callable(value) and not hasattr(value, "__get__")
    ]


def start_with(parameters: dict[str, inspect.Parameter]) -> Callable[..., Any]:
    """A method ``start`` that declares these arguments; the spider has got them before."""

    def start(self: Any, **given: Any) -> Any:
        return self._opened_port().callbacks.begin()

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    start.__signature__ = inspect.Signature([own, *parameters.values()])  # type: ignore[attr-defined]
    start.__annotations__ = {name: one.annotation for name, one in parameters.items()}
    start.__doc__ = "Yields the first requests."
    return start


def _parameter(name: str, default: Any, needed: bool) -> inspect.Parameter:
    hint: Any = Given
    if not needed and default not in (None, ""):
        hint = Annotated[Given, msgspec.Meta(description=f"by default {default!r:.80}")]
    if needed:
        hint, default = str, inspect.Parameter.empty
    else:
        default = msgspec.UNSET
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=hint)
