"""Spider: the class that authors subclass, and its arguments."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from crawlframe.base.expect import Expect, expectation
from crawlframe.base.limits import without_none
from crawlframe.base.secret import Secret, convert, default_of, schema_of
from crawlframe.base.stats import RUNNING, Owner, Stats
from crawlframe.base.type_words import in_words
from crawlframe.errors import ArgumentError, SpiderError
from crawlframe.near.fingerprint import visible_text
from crawlframe.proxies.selector import DIRECT, ProxyPool
from crawlframe.render import required
from crawlframe.request.downloader_names import BROWSER, misfit
from crawlframe.request.request import END_CALLBACK, Request
from crawlframe.response.response import Response
from crawlframe.revisit import Revisit
from crawlframe.revisit.declared import policies_of
from crawlframe.spider.checks import misuse_of
from crawlframe.spider.middleware import Middleware, SyncMiddleware
from crawlframe.spider.setting_tables import merged, wrong_names
from crawlframe.spider.settings import STORE_MISFIT, SpiderSettings

AnyMiddleware = Middleware | SyncMiddleware | type[Middleware] | type[SyncMiddleware]

BLOCKS = (403, 429, 503)  # statuses of a server that turns a crawler away


class Inline(Protocol):
    """Fetches for a callback that awaits the response. ``offline``: it refuses to."""

    offline: ClassVar[bool]

    async def fetch(self, request: Request) -> Response:
        """Returns the response, whatever its status. Raises FetchError."""

    def keep_cookies(self, request: Request, cookies: Mapping[str, str]) -> None:
        """Puts cookies into the jar of ``request``, as if its host had set them."""


class SpiderLog(logging.LoggerAdapter[logging.Logger]):
    """The logger ``spider.NAME``. Messages start with the task and the URL of the running request;
    handlers find ``task``, ``spider``, ``url`` and ``rid`` in the record."""

    def __init__(self, spider: str, owner: Owner) -> None:
        super().__init__(logging.getLogger(f"spider.{spider}"))
        self._spider = spider
        self._owner = owner

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if not self.isEnabledFor(level):
            return
        running, task = RUNNING.get(None), self._owner._task
        url, rid = (running.url, running.rid.hex()) if running else ("", "")
        about = {"spider": self._spider, "task": task, "url": url, "rid": rid}
        kwargs["extra"] = about | (kwargs.get("extra") or {})
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # this method is not the caller
        before = " ".join(filter(None, (f"task {task}" if task else "", url)))
        if args:
            before = before.replace("%", "%%")
        self.logger.log(level, f"{before}: {msg}" if before else msg, *args, **kwargs)


class Spider:
    """Base class of spiders. Subclass it in ``spiders/``, set ``name``, and yield items and
    Requests.

    The arguments of a task are the parameters of ``start`` and the annotated class attributes;
    their types are checked when the task is submitted, and class attributes are set on ``self``.
    Items are dicts, or objects of dataclasses, attrs, pydantic or msgspec. Define
    ``requests_session(self)``, returning a requests.Session, to give the requests downloader
    adapters and auth plugins.

    ``item`` is the class of the items: each yielded item becomes an object of it, with its types
    checked and coerced. Items that do not fit are dropped and counted.

    ``middlewares`` are around the download, the outermost first: objects with a method ``fetch``,
    or classes; each worker makes one object of a class for a spider.

    ``pipelines`` process items before they are stored, in order: functions ``(item, response)``, or
    classes or objects with ``process_item(self, item, response)``, plain or async. ``opened(self,
    task)`` is called once in each worker that takes up a task, before its first callback there;
    ``task`` is a TaskInfo. ``closed(self, summary)`` is called once per task, after everything else
    of it has ended, with a Summary; it may yield items. Declarations of a class are inherited.

    ``workers = 1``: all requests of a task run in one worker of the cluster at a time, for spiders
    that keep state on ``self``. When that worker dies, ends or is replaced by a reload, the next
    worker takes over, and ``self`` starts anew there.

    ``expect`` is an Expect: the author's expectations of each run. With the setting ``render =
    "auto"``, a page is rendered if an item lacks one of its fields, or a field of ``item``.

    ``proxy`` of requests that do not name one, as ``Request`` takes it; "": as in the settings.

    ``revisit`` is a Revisit, or a dict of them by callback: when the spider is watched, pages are
    visited again."""

    name: ClassVar[str] = ""
    start_urls: ClassVar[Iterable[str]] = ()
    allowed_domains: ClassVar[Iterable[str]] = ()
    settings: ClassVar[dict[str, Any]] = {}
    files: ClassVar[Iterable[str]] = ()  # other files, outside spiders/, that belong to the code
    middlewares: ClassVar[Sequence[AnyMiddleware]] = ()
    pipelines: ClassVar[Sequence[Any]] = ()
    item: ClassVar[Any] = None  # a class, or a callback of this name
    workers: ClassVar[int | None] = None  # 1: all requests of a task run in one worker
    expect: ClassVar[Expect | None] = None
    proxy: ClassVar[ProxyPool | str | None] = ""
    revisit: ClassVar[Revisit | Mapping[Any, Revisit] | None] = None  # or a callback of this name

    _discovers: ClassVar[tuple[str, ...]] = ()  # callbacks that only find pages
    _own_process: ClassVar[bool] = False  # the worker of a task runs only that, in one thread
    _required: ClassVar[tuple[str, ...]] = ()  # further fields that the items must have
    _task = 0  # the number of the task; 0 outside of a worker
    _inline: Inline | None = None  # None outside of a worker

    @classmethod
    def _make(
        cls, arguments: dict[str, Any], overrides: Mapping[str, Any] = MappingProxyType({})
    ) -> Spider:
        """Returns the object of a task, with its arguments except the parameters of ``start``.
        ``arguments`` are all, and checked. ``overrides``: the task's own settings, as they were
        given."""
        made = cls()
        start = inspect.signature(cls.start).parameters
        for name, value in arguments.items():
            if name not in start:
                setattr(made, name, value)
        return made

    async def _release(self) -> None:
        """Called when a worker closes the task of the object."""

    @cached_property
    def log(self) -> SpiderLog:
        """A logger whose messages name the task, and the URL of the request that runs."""
        return SpiderLog(self.name, self)

    @cached_property
    def stats(self) -> Stats:
        """Counters and maxima of the task, summed over all workers."""
        return Stats(self)

    # Typed openly, so that a spider with parameters of its own passes its author's type checker.
    def start(self, *args: Any, **kwargs: Any) -> Any:
        """Yield the first requests; may be a generator, an async generator, or return a list. By
        default, a request for each of ``start_urls``."""
        for url in self.start_urls:
            yield Request(url)

    def parse(self, response: Response, *args: Any, **kwargs: Any) -> Any:
        """The callback of requests that do not name one."""
        raise SpiderError(f"spider {self.name!r} has no parse method; write one or name a callback")

    def follow(self, request: Request, response: Response | None) -> Request | None:
        """Called with each request that ``start``, a callback or an errback yields: returns it, as
        it is or changed, another Request, or None to drop it. ``response`` is None in start, and
        where the fetch brought none."""
        return request

    def importance(self, request: Request) -> float:
        """With ``revisit``, called with each request for a page that is to be visited again: how
        much it matters that the page is up to date, compared with others; more than 0."""
        return 1.0

    def is_blocked(self, response: Response) -> bool:
        """Whether the server has turned the crawler away: a blocked page is tried again, and a host
        whose pages are mostly blocked is left alone for an hour. By default, by the status."""
        return response.status in BLOCKS

    def needs_browser(self, response: Response) -> bool:
        """With ``render = "auto"``, called with each plain page before its callback: whether the
        page must be rendered. By default, the callback's results decide."""
        return False

    def near_text(self, response: Response) -> str:
        """With ``near_duplicates``, called with each page before its callback: the text that is
        compared with other pages; "" if the page is not compared. By default, the visible text of
        an HTML page, without navigation, header, footer and asides; all of another text, and
        nothing of other kinds."""
        if response.kind == "html":
            return visible_text(response._utf8)
        return response.text if response.kind in ("text", "xml", "json") else ""


class SpiderInfo(msgspec.Struct, frozen=True):
    """A spider's description, so that the service need not import it."""

    name: str
    doc: str
    module: str
    arguments: dict[str, Any]  # JSON schema of the argument object
    settings: SpiderSettings
    ends: bool = False  # it has `closed`: its tasks have a last request that runs it
    workers: int = 0  # 1: all requests of a task run in one worker of the cluster at a time
    expect: Expect | None = None  # expectations of each run
    revisit: dict[str, Revisit] = {}  # by callback; "*": all others
    owners: tuple[str, ...] = ()  # people and teams, by the file OWNERS


def read_settings(spider: type[Spider]) -> SpiderSettings:
    """Return the checked settings of a spider class, merged over its base classes' settings. Raises
    SpiderError."""
    given: dict[Any, Any] = {}
    for owner in reversed(spider.__mro__):
        own = vars(owner).get("settings", {})
        if not isinstance(own, Mapping):
            raise SpiderError(f"spider {spider.name!r}: settings must be a dict, not {own!r}")
        given = merged(given, own)
        proxy = vars(owner).get("proxy", "")
        if proxy != "" and not inspect.isroutine(proxy):  # else a callback of this name
            if "proxy" in own:
                raise SpiderError(
                    f"spider {spider.name!r}: {owner.__name__} has a proxy, and another one in its "
                    "settings; leave one of the two out"
                )
            given["proxy"] = DIRECT if proxy is None else proxy

    def refuse_if(problem: str) -> None:
        _refuse_if(spider, problem and f"settings: {problem}")

    refuse_if(wrong_names(given, SpiderSettings.__struct_fields__))
    try:
        given |= {key: str(value) for key, value in given.items() if isinstance(value, ProxyPool)}
        settings = msgspec.convert(without_none(given), SpiderSettings, strict=False)
    except msgspec.ValidationError as error:
        refuse_if(in_words(error, SpiderSettings))
    except ValueError as error:  # of a ProxyPool
        refuse_if(str(error))
    # Not where they are read that another node has published, which may have more plug-ins.
    refuse_if(misfit(settings.downloader))
    if settings.render and settings.downloader == BROWSER:
        refuse_if(
            'render = "auto" chooses between downloader and browser; leave one of render and '
            "downloader out"
        )
    return settings


def argument_type(
    spider: type[Spider], given: Container[str] | None = None
) -> type[msgspec.Struct]:
    """Return a struct type of the spider's arguments: parameters of ``start`` and annotated class
    attributes; with ``given``, without the required ones that are not in it.

    Raises SpiderError if a type is not supported."""
    fields: list[Any] = []
    hinted = [
        (field, hint)
        for owner in reversed(spider.__mro__)
        if issubclass(owner, Spider)
        for field, hint in inspect.get_annotations(owner).items()
    ]
    # A ClassVar of a base class is no argument, though a spider gives it another hint.
    own = {field for field, hint in hinted if "ClassVar" in str(hint)}
    annotated = [field for field, _ in hinted if field not in own and not field.startswith("_")]
    hints = _hints(spider) if annotated else {}  # evaluating them takes its time
    for field in annotated:
        if not _is_class_var(hints, field):
            default = getattr(spider, field, msgspec.NODEFAULT)
            fields.append((field, hints[field], default))
    start_hints = _hints(spider.start)
    for parameter in list(inspect.signature(spider.start).parameters.values())[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        no_default = parameter.default is parameter.empty
        default = msgspec.NODEFAULT if no_default else parameter.default
        fields.append((parameter.name, start_hints.get(parameter.name, str), default))
    fields = [(name, kind, default_of(kind, default)) for name, kind, default in fields]
    fields = [
        (name, kind, msgspec.field(default_factory=partial(copy, default)))
        if isinstance(default, (list, dict, set, Secret))  # a schema must not show a Secret
        else (name, kind, default)
        for name, kind, default in fields
        if given is None or name in given or default is not msgspec.NODEFAULT
    ]
    try:
        return msgspec.defstruct(
            f"{spider.__name__}Arguments", fields, kw_only=True, forbid_unknown_fields=True
        )
    except (TypeError, ValueError) as error:
        raise SpiderError(f"spider {spider.name!r}: arguments: {error}") from None


def describe(spider: type[Spider]) -> SpiderInfo:
    """Return a spider's description for nodes to publish. Raises SpiderError if it breaks the
    contract."""
    _refuse_if(spider, misuse_of(spider, Spider))
    kind = argument_type(spider)
    try:
        schema = schema_of(kind)
    except TypeError as error:
        _refuse_if(spider, _untold(kind) or f"arguments: {error}")
        raise
    if spider.workers not in (None, 1):
        _refuse_if(
            spider,
            f"workers is {spider.workers!r}; set it to 1, if the spider keeps state on self, or "
            "leave it out: nodes decide how many workers they have",
        )
    settings = read_settings(spider)
    if settings.uses_store and spider.middlewares:
        _refuse_if(spider, STORE_MISFIT)
    if settings.render:
        _refuse_if(spider, required.misuse_of(spider, Spider))
    try:
        expect = expectation(spider.expect)
    except ValueError as error:
        raise SpiderError(f"spider {spider.name!r}: {error}") from None
    name = schema["$ref"].rsplit("/", 1)[1]
    definitions = schema["$defs"]
    arguments = definitions.pop(name)
    if definitions:
        arguments["$defs"] = definitions
    return SpiderInfo(
        name=spider.name,
        doc=inspect.cleandoc(spider.__doc__ or ""),
        module=spider.__module__,
        arguments=arguments,
        settings=settings,
        ends=callable(getattr(spider, END_CALLBACK, None)),
        workers=spider.workers or 0,
        expect=expect,
        revisit=read_revisit(spider),
    )


def _refuse_if(spider: type[Spider], problem: str) -> None:
    """Raises SpiderError unless ``problem`` is empty."""
    if problem:
        raise SpiderError(f"spider {spider.name!r}: {problem}") from None


def read_revisit(spider: type[Spider]) -> dict[str, Revisit]:
    """When the pages of a spider are visited again, by callback. Raises SpiderError."""
    given = spider.revisit
    if inspect.isroutine(given):  # a callback of this name
        return {}
    try:
        return policies_of(given, lambda name: getattr(spider, name, None))
    except ValueError as error:
        raise SpiderError(f"spider {spider.name!r}: {error}") from None


def build(
    spider: type[Spider],
    arguments: dict[str, Any],
    overrides: Mapping[str, Any] = MappingProxyType({}),
    *,
    complete: bool = True,
) -> tuple[Spider, dict[str, Any]]:
    """Return an instance with its class-level arguments set, and the keyword arguments of
    ``start``. ``overrides``: settings of the task. Unless ``complete``, required arguments may be
    missing.

    Raises ArgumentError naming the argument."""
    kind = _whole_type(spider)
    if not complete and any(
        one.required for one in msgspec.structs.fields(kind) if one.name not in arguments
    ):
        kind = argument_type(spider, arguments)
    try:
        checked = convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise ArgumentError(f"spider {spider.name!r}: {in_words(error, kind)}") from None
    values = {field: getattr(checked, field) for field in kind.__struct_fields__}
    start = inspect.signature(spider.start).parameters
    made = spider._make(values, overrides)
    return made, {field: values[field] for field in values if field in start}


# To read the hints takes three quarters of the time of ``build``.
_types: WeakKeyDictionary[type[Spider], type[msgspec.Struct]] = WeakKeyDictionary()


def _whole_type(spider: type[Spider]) -> type[msgspec.Struct]:
    """The type of all arguments, made once. Raises SpiderError."""
    if spider not in _types:
        _types[spider] = argument_type(spider)
    return _types[spider]


def _untold(kind: type[msgspec.Struct]) -> str:
    """Return a message about an argument whose type has no JSON schema; "" if there is none."""
    for field in msgspec.structs.fields(kind):
        try:
            schema_of(field.type)
        except TypeError:
            return (
                f"argument {field.name!r}: its type {inspect.formatannotation(field.type)} cannot "
                "be checked; use int, float, bool, str, date, list[str], Literal[...], or one of "
                "them | None"
            )
    return ""


def _hints(thing: Any) -> dict[str, Any]:
    try:
        return get_type_hints(thing, include_extras=True)
    except Exception as error:  # a hint may name anything, and evaluating it raise anything
        raise SpiderError(f"{thing.__qualname__}: its type hints cannot be read: {error}") from None


def _is_class_var(hints: dict[str, Any], field: str) -> bool:
    return getattr(hints.get(field), "__origin__", hints.get(field)) is ClassVar
