"""Wording: why requests find no proxy, in one sentence in the reader's language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext

from crawlservice.proxies.proxy_shortage import Missing


def no_proxy(one: Missing) -> str:
    """Why requests of a host find no proxy, in one sentence."""
    return sentence_of(facts_of(one))


def facts_of(one: Missing) -> dict[str, Any]:
    """The facts that an alert about it keeps."""
    facts = {"choice": one.choice, "cause": one.cause, "host": one.host, "proxies": one.proxies}
    if one.at_host:
        until = datetime.fromtimestamp(one.until, UTC)
        facts["until"] = f"{until:%Y-%m-%d %H:%M:%S} UTC"
    return facts


def sentence_of(facts: Mapping[str, Any]) -> str:
    """The sentence that such facts make."""
    return CAUSES[facts["cause"]]().format(
        host=facts["host"], choice=facts["choice"], until=facts.get("until", "")
    )


CAUSES: dict[str, Callable[[], str]] = {
    "empty": lambda: gettext("Requests wait for a proxy, and the pool is empty."),
    "unfit": lambda: gettext("Requests wait for a proxy, and none in the pool fits {choice}."),
    "disabled": lambda: gettext("Requests wait for a proxy; all that fit {choice} are disabled."),
    "unchecked": lambda: gettext(
        "Requests wait for a proxy; those that fit {choice} have not been checked yet."
    ),
    "failed": lambda: gettext("Requests wait for a proxy; all that fit {choice} have failed."),
    "blocked": lambda: gettext("{host} blocks all proxies that fit {choice}, until {until}."),
    "resting": lambda: gettext("All proxies that fit {choice} rest at {host}, until {until}."),
}
