"""Sending: writes down when each request leaves its worker, and through which proxy to which host.
The way from there to the origin, through proxies in Python on the same machine, takes some
milliseconds more or less."""

from __future__ import annotations

import os
import time
from typing import Any

from crawlframe.fetch.curl_handle import Handle
from crawlframe.links import host_of

LOG = "PROXIES_SENT"  # the variable that names the file


def watch() -> None:
    """From now on, in this process and those forked from it."""
    log = os.environ.get(LOG)
    if not log or hasattr(Handle, "_journey"):
        return
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    prepare, before_sending = Handle.prepare, Handle._before_sending

    def prepared(self: Any, journey: Any, *given: Any) -> None:
        self._journey = journey
        prepare(self, journey, *given)

    def sending(self: Any, *addresses: Any) -> int:
        proxy = self._journey.proxy
        if proxy is not None and proxy.id:
            host = host_of(self._journey.url).partition(".")[0]
            path = "/" + self._journey.url.split("/", 3)[3]
            os.write(file, f"{time.time()} {host} {proxy.id} {path}\n".encode())
        return before_sending(self, *addresses)

    Handle._journey = None  # type: ignore[attr-defined]
    Handle.prepare, Handle._before_sending = prepared, sending  # type: ignore[method-assign, assignment]
