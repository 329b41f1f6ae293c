"""The arguments of a Scrapy spider, which are text: the parameters of its ``__init__``, and what
its methods read of ``self`` or ``kwargs`` though nothing sets it, and what its class has a value
for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from crawlframe.scrapy.reading import ClassSource

Given = str | msgspec.UnsetType
# Scrapy sets them on the object, or reads them of the class.
_NAMES = frozenset(
    {
        "allowed_domains", "crawler", "custom_settings", "download_delay", "download_maxsize",
        "download_timeout", "expect", "handle_httpstatus_list", "max_concurrent_requests", "name",
        "rules", "settings", "start_urls", "user_agent",
    }
)  # fmt: skip


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
        return self._begin()

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
