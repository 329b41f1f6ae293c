"""PageObjects: objects that callbacks ask for by type hint, made from the response. The classes are
web-poet's; andi reads the type hints and finds the order in which to make them.

Import this only when web_poet has been imported, as by a spider that has page objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import andi
import web_poet
from andi.typeutils import strip_annotated
from web_poet.page_inputs.stats import StatCollector
from web_poet.pages import is_injectable

from crawlframe.errors import SpiderError
from crawlframe.response.response import Response

_UNAVAILABLE = {
    web_poet.HttpClient: "yield a Request instead, and use what it fetches in its callback",
    web_poet.BrowserResponse: "pages are not rendered by a browser; use HttpResponse",
    web_poet.BrowserHtml: "pages are not rendered by a browser; use HttpResponse",
}


class PageObjects:
    """Page objects of one spider object."""

    def __init__(self, spider: Any) -> None:
        self._stats = web_poet.Stats(TaskStats(spider))
        self._plans: dict[tuple[Any, frozenset[Any]], andi.Plan | None] = {}
        rules = web_poet.default_registry.get_rules()
        self._overrides = any(rule.instead_of for rule in rules)

    def parameters(self, callback: Callable[..., Any]) -> frozenset[str]:
        """The names of the parameters that are made here."""
        plan = self._plan(callback, {})
        return frozenset() if plan is None else frozenset(plan[-1][1])

    def bind(
        self, callback: Callable[..., Any], response: Response, cb_kwargs: dict[str, Any]
    ) -> Callable[[], Any]:
        """The call of a callback, which first makes its page objects. ``cb_kwargs`` win."""
        overrides: Mapping[Any, Any] = {}
        if self._overrides:
            overrides = web_poet.default_registry.overrides_for(response.url)
        plan = self._plan(callback, overrides)
        if plan is None:
            return partial(callback, response, **cb_kwargs)

        def call() -> Any:
            return callback(response, **(self._make(plan, response) | cb_kwargs))

        return call

    def _plan(self, callback: Callable[..., Any], overrides: Mapping[Any, Any]) -> andi.Plan | None:
        key = getattr(callback, "__func__", callback), frozenset(overrides.items())
        if key not in self._plans:
            self._plans[key] = plan_of(callback, overrides, given=1)
        return self._plans[key]

    def _make(self, plan: andi.Plan, response: Response) -> dict[str, Any]:
        made: dict[Any, Any] = {}
        for kind, parameters in plan.dependencies:
            plain = strip_annotated(kind)
            if plain is web_poet.Stats:
                made[kind] = self._stats
            elif plain in _PROVIDED:
                made[kind] = _PROVIDED[plain](response)
            else:
                made[kind] = plain(**parameters.kwargs(made))
        return plan.final_kwargs(made)


class TaskStats(StatCollector):
    """The counters of web-poet as counters of the task."""

    def __init__(self, spider: Any) -> None:
        self._spider = spider

    def inc(self, key: str, value: Any = 1) -> None:
        self._spider.stats.inc(key, value)

    def set(self, key: str, value: Any) -> None:
        raise SpiderError(
            f"Stats.set({key!r}) of a page object: a task has counters; use inc, or self.stats.max "
            "in the spider"
        )


class CheckedResponse(web_poet.HttpResponse):
    """A response that shares the text and the selector of ours, and its refusal of pages that take
    too long."""

    _ours: Response

    @classmethod
    def of(cls, response: Response) -> CheckedResponse:
        one = cls(
            url=response.url,
            body=response.body,
            status=response.status,
            headers=[*response.headers.items()],
            encoding=response.encoding,
        )
        one._ours = response
        return one

    @property
    def text(self) -> str:
        if self._ours.kind == "html":
            _ = self._ours.selector  # raises if page objects cannot parse it
        return self._ours.text

    @property
    def selector(self) -> Any:
        return self._ours.selector


def plan_of(
    callback: Callable[..., Any], overrides: Mapping[Any, Any], given: int
) -> andi.Plan | None:
    """The plan to make the page objects of a callback, for parameters after the first ``given``;
    None if it has none. ``overrides``: page objects that replace others. Raises SpiderError for a
    type that nothing provides."""
    try:
        ours = [*inspect.signature(callback).parameters][:given]
        plan = andi.plan(
            callback,
            is_injectable=is_injectable,
            externally_provided=_EXTERNAL,
            overrides=overrides.get,
        )
    except andi.NonProvidableError as error:
        why = " ".join(str(error).split())
        raise SpiderError(f"its page objects cannot be made: {why}") from None
    except (NameError, TypeError, ValueError):  # no signature, or hints for type checkers only
        return None
    parameters = plan[-1][1]
    for name in [*parameters]:
        if name in ours or parameters[name] is Response:
            del parameters[name]
    if not parameters:
        return None
    for kind, needs in plan:
        name = getattr(kind, "__name__", str(kind))
        for one in needs.values():
            plain = strip_annotated(one)
            if plain in _UNAVAILABLE:
                what = f"{plain.__name__}, which does not exist here; {_UNAVAILABLE[plain]}"
                raise SpiderError(f"{name} asks for {what}")
            if plain is not one and is_injectable(plain):
                raise SpiderError(f"{name} asks for Annotated; write {plain.__name__} alone")
    return plan


def misuse_of(spider: type[Any]) -> str:
    """The first method of a spider class whose type hints nothing provides; "" if none."""
    for name, method in inspect.getmembers(spider, inspect.isfunction):
        try:
            plan_of(method, {}, given=2)  # self and the response
        except SpiderError as error:
            return f"{name}: {error}"
    return ""


def _request_of(response: Response) -> web_poet.HttpRequest:
    sent = response.request
    return web_poet.HttpRequest(
        url=sent.url, method=sent.method, headers=sent.headers, body=sent.body or b""
    )


_PROVIDED: dict[Any, Callable[[Response], Any]] = {
    Response: lambda response: response,
    web_poet.HttpResponse: CheckedResponse.of,
    web_poet.AnyResponse: lambda response: web_poet.AnyResponse(CheckedResponse.of(response)),
    web_poet.HttpResponseBody: lambda response: web_poet.HttpResponseBody(response.body),
    web_poet.HttpResponseHeaders: lambda response: CheckedResponse.of(response).headers,
    web_poet.ResponseUrl: lambda response: web_poet.ResponseUrl(response.url),
    web_poet.HttpRequest: _request_of,
    web_poet.HttpRequestBody: lambda response: _request_of(response).body,
    web_poet.HttpRequestHeaders: lambda response: _request_of(response).headers,
    web_poet.RequestUrl: lambda response: _request_of(response).url,
    web_poet.PageParams: lambda response: web_poet.PageParams(response.meta.get("page_params", {})),
}
_EXTERNAL = {web_poet.Stats, *_PROVIDED, *_UNAVAILABLE}
