"""Revisit: an author's declaration about visiting pages again. It is published with the spider, so
that the service can plan visits without importing it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import msgspec

from crawlframe.base.expect import is_number
from crawlframe.errors import did_you_mean

DAY = 86400.0  # seconds
ALL = "*"  # in place of a callback: all that have no Revisit of their own
START = "start"
LEAST_EVERY = 60.0  # seconds
MOST_EVERY = 3650 * DAY
_AGE = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*([smhdw])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}


class Revisit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``revisit = Revisit(budget=5000, host_budget=1000)``

    One of three says when pages are due again. ``every``: at a fixed interval, seconds or text such
    as "90m", "12h", "7d". ``by="lastmod"``: when a sitemap says that they have changed, and with
    ``every`` after that interval too. ``budget``: requests per day, divided so that the pages are
    up to date for most of the time; ``host_budget`` is the most for one host.

    ``compare`` is the part whose changes count: "items" of the page, its "body", or a method of the
    spider that is called with the response and returns text or bytes. By default it is the items if
    the page has some, else the text of its body. ``ignore``: CSS selectors of elements that are
    left out of the body. ``key``: the fields that identify an item; by default it is the item's
    place on its page. With ``errors``, requests that ended in error are visited again, too."""

    every: float | str = 0.0
    by: Literal["", "lastmod"] = ""
    budget: float = 0.0
    host_budget: float = 0.0
    compare: str = ""
    ignore: tuple[str, ...] | str = ()
    key: tuple[str, ...] | str = ()
    errors: bool = False

    def __post_init__(self) -> None:
        put = msgspec.structs.force_setattr
        if isinstance(self.every, str):
            put(self, "every", _seconds(self.every))
        compare: Any = self.compare
        if callable(compare):  # a method, as it is named in the body of its class
            put(self, "compare", compare.__name__)
        for name in ("ignore", "key"):
            value = getattr(self, name)
            if isinstance(value, str):
                put(self, name, (value,))
            elif isinstance(value, list):
                put(self, name, tuple(value))
        if problem := _problem(self):
            raise ValueError(f"revisit: {problem}")

    @property
    def interval(self) -> float:
        """Seconds; 0: it has none."""
        assert not isinstance(self.every, str)
        return self.every

    @property
    def is_optimal(self) -> bool:
        return self.budget > 0


Policies = dict[str, Revisit]  # by callback, or ALL


def policies_of(given: Any, method: Callable[[str], object]) -> Policies:
    """The policies in a spider's ``revisit``, by callback; ``start``, which finds new pages, is run
    every day unless it is named. ``method`` returns the spider's method of a name, or None. Raises
    ValueError, which names the key and the fix."""
    if given is None:
        return {}
    if isinstance(given, Revisit):
        given = {ALL: given}
    if not isinstance(given, Mapping) or not given:
        raise ValueError(
            "revisit must be Revisit(...), or a dict of them by callback, such as "
            f'{{"parse_item": Revisit(every="1d")}}, not {given!r:.80}'
        )
    found: Policies = {}
    for key, policy in given.items():
        name = key if isinstance(key, str) else getattr(key, "__name__", repr(key))
        if not isinstance(policy, Revisit):
            raise ValueError(f"revisit: {name} must be Revisit(...), not {policy!r:.80}")
        if name != ALL and not callable(method(name)):
            raise ValueError(f"revisit: the spider has no method {name!r}")
        if name == START and (not policy.interval or policy.by or policy.budget):
            raise ValueError('revisit: start runs at an interval; give it Revisit(every="1d")')
        if _is_method(policy.compare) and not callable(method(policy.compare)):
            near = did_you_mean(policy.compare, ("items", "body"))
            raise ValueError(
                f"revisit: {name}: compare is {policy.compare!r}; the spider has no method of this "
                f"name{near}"
            )
        found[name] = policy
    return found | ({} if START in found else {START: Revisit(every=DAY)})


def policy_of(policies: Policies, callback: str, discovers: Collection[str] = ()) -> Revisit | None:
    """The policy of the requests with this callback; None: they belong to the visit that leads to
    them, and are not visited by themselves. ``discovers``: callbacks that only find pages."""
    own = policies.get(callback)
    if own is None and callback not in discovers and callback != START:
        return policies.get(ALL)
    return own


def group_of(policies: Policies, callback: str) -> str:
    """The name under which its pages share a budget."""
    return callback if callback in policies else ALL


def _is_method(compare: str) -> bool:
    return compare not in ("", "items", "body")


def _seconds(text: str) -> float:
    found = _AGE.fullmatch(text.strip())
    if not found:
        raise ValueError(
            f'revisit: every is {text!r}; write a number and s, m, h, d or w, such as "12h"'
        )
    return float(found[1]) * _UNITS[found[2]]


def _problem(policy: Any) -> str:
    for name in ("every", "budget", "host_budget"):
        value = getattr(policy, name)
        if not is_number(value) or value < 0:
            return f"{name} is {value!r}; give a number above 0"
    if policy.by not in ("", "lastmod"):
        return f'by is {policy.by!r}; the only choice is "lastmod"'
    if not (policy.every or policy.by or policy.budget):
        return 'say when pages are due again: every="1d", by="lastmod" or budget=1000'
    if policy.budget and (policy.every or policy.by):
        return "budget decides when pages are due; leave every and by out"
    if policy.host_budget and not policy.budget:
        return "host_budget needs a budget"
    if policy.every and not LEAST_EVERY <= policy.every <= MOST_EVERY:
        return f"every is {policy.every:g} seconds; give 60 seconds to 10 years"
    if not isinstance(policy.compare, str):
        return f'compare is {policy.compare!r}; give "items", "body" or a method of the spider'
    for name in ("ignore", "key"):
        value = getattr(policy, name)
        if not isinstance(value, tuple) or not all(isinstance(one, str) and one for one in value):
            return f"{name} is {value!r}; give a list of text"
    if policy.ignore and policy.compare not in ("", "body"):
        return f"ignore is for the body, but compare is {policy.compare!r}"
    if not isinstance(policy.errors, bool):
        return f"errors is {policy.errors!r}; give True or False"
    return _bad_selector(policy.ignore)


def _bad_selector(selectors: Collection[str]) -> str:
    if not selectors:
        return ""
    from cssselect import HTMLTranslator, SelectorError

    for selector in selectors:
        try:
            HTMLTranslator().css_to_xpath(selector)
        except SelectorError as error:
            return f"ignore: {selector!r} is no CSS selector: {error}"
    return ""
