"""The names of downloaders, built-in ones and those from installed packages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from crawlframe.errors import BadRequest, MissingCode, did_you_mean
from crawlframe.request.options import Options

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BROWSER = "browser"
BUILT_IN = ("curl", "requests", BROWSER)
GROUP = "crawlframe.downloaders"  # of the entry points of packages: name = "module:factory"


@cache
def plug_ins() -> dict[str, EntryPoint]:
    """The downloaders of installed packages, by name. Built-in ones keep their names."""
    from importlib.metadata import entry_points  # large, and few need it

    return {one.name: one for one in entry_points(group=GROUP) if one.name not in BUILT_IN}


def known() -> list[str]:
    return [*BUILT_IN, *sorted(plug_ins())]


def misfit(name: Any) -> str:
    """Why a text is not the name of a downloader; "" if it is one."""
    if name in BUILT_IN or (isinstance(name, str) and name in plug_ins()):
        return ""
    return (
        f"downloader must be one of {', '.join(known())}, not {name!r}"
        f"{did_you_mean(str(name), known())}; others are installed as packages, for the web and "
        "all nodes"
    )


def check_downloader(url: str, method: str, name: str | None, options: Options) -> None:
    """Raises BadRequest if there is no such downloader, or it cannot serve the request."""
    if name is not None and (problem := misfit(name)):
        raise BadRequest(f"request {url}: {problem}")
    if name == BROWSER and method not in ("GET", "POST"):
        raise BadRequest(f"request {url}: a browser sends GET and POST, not {method}")
    if options.save and method == "HEAD":
        raise BadRequest(f"request {url}: save needs a body, which HEAD does not get")
    if options.actions and name not in (None, BROWSER):
        raise BadRequest(f"request {url}: actions need downloader={BROWSER!r}, not {name!r}")


def installed(name: str | None) -> str | None:
    """The downloader of a queued request. Raises MissingCode if this node does not have it."""
    if name is not None and (problem := misfit(name)):
        raise MissingCode(f"a queued request: {problem}")
    return name
