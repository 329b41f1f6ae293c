"""Names of hosts: ``host`` or ``host:port``, in the form that they have in links."""

from __future__ import annotations

import re

from crawlframe.base.urls import host_of, normalise
from crawlframe.errors import BadRequest, CrawlframeError
from crawlservice.connections.lookup import NotFound
from crawlservice.models import HOST, Host

_FOREIGN = re.compile(r"[\s/?#@\\\0]")


class BadHost(CrawlframeError):
    """This is no name of a host."""


def check_name(given: str) -> str:
    """The name as links have it: in lower case, international names in their ASCII form, without
    the usual ports 80 and 443. Raises BadHost."""
    name = given.strip()
    problem = BadHost(
        f"{given[:300]!r} is not a host; give one as it is in links, such as example.com or "
        "example.com:8080, without https:// and path"
    )
    if not name or _FOREIGN.search(name):
        raise problem
    try:
        scheme = "https" if name.endswith(":443") else "http"  # as links to that port have it
        found = host_of(normalise(f"{scheme}://{name}/"))
    except BadRequest:
        raise problem from None
    if not found or len(found) > HOST:
        raise problem
    return found


def get_host(given: str) -> Host:
    """The host of this name. Raises BadHost and NotFound."""
    name = check_name(given)
    host = Host.objects.select_related("ordered_by").filter(name=name).first()
    if host is None:
        raise NotFound(
            "host", f"nothing is known of the host {name}; it has not been fetched from yet"
        )
    return host
