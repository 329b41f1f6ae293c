"""hosts: the hosts that are crawled, and orders of operators for them."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from rich.text import Text

from crawlframe import gates
from crawlservice.cli.command import ServiceCommand, add_json
from crawlservice.cli.listing import STYLES, Listing, attributes, facts_table, plain
from crawlservice.cli.moment import ahead, read_moment
from crawlservice.cli.noun import Noun
from crawlservice.hosts import orders
from crawlservice.hosts.host_labels import LABELS, speed, why
from crawlservice.hosts.orders import Terms, get_host
from crawlservice.hosts.rules import Which, chosen, rule_of
from crawlservice.hosts.states import HostNow, described, read, tasks_of
from crawlservice.models import Host

WHO = {"command": True}
FOREVER = "no end"
HOSTS = Listing[HostNow](
    "hosts",
    {
        **attributes("host=host.name"),
        "state": lambda now: _state(now),
        "why": why,
        **attributes("pages=host.pages", "errors=host.errors"),
        "rate": lambda now: speed(now.rate),
        "allowed": lambda now: speed(now.allowed),
        **attributes("queue=state.queued", "in flight=state.in_flight"),
        "last": lambda now: last_answer(now.host),
        "ms": lambda now: None if now.host.latency_ms is None else round(now.host.latency_ms),
    },
    "no hosts; they appear some seconds after they were fetched from",
    folded=("host", "why"),
    described=described,
)


class ListHosts(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("-n", type=int, default=20, metavar="COUNT", help="how many (20)")
        parser.add_argument("--begins", default="", metavar="TEXT", help="names that start so")
        which = parser.add_mutually_exclusive_group()
        for word, text in (
            (Which.HELD, "only hosts that block, or have asked for a wait of more than an hour"),
            (Which.PAUSED, "only hosts that an operator has paused"),
            (Which.ORDERED, "only those with an order"),
            (Which.ERRORS, "only those with errors"),
        ):
            which.add_argument(
                f"--{word}", dest="which", action="store_const", const=word, help=text
            )
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        rows = chosen(options["which"], options["begins"]).select_related("ordered_by")
        count = max(0, options["n"])
        found = read(rows.order_by("-pk")[: count + 1])
        self.show_list(HOSTS, found[:count], options["json"])
        if len(found) > count and not options["json"]:
            self.stdout.write(f"… and older ones: -n {10 * max(1, count)}")


class ShowHost(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        _add_name(parser)
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        now = read([get_host(options["name"])])[0]
        if options["json"]:
            self.show_json(described(now))
        else:
            self.console.print(facts_table(facts(now)))


class OrderHost(ServiceCommand):
    """Gives an order for a host, and shows the host. ``told``: the change. ``undo``: the verb that
    takes it back; "": the order before is given again; None: nothing does. ``limits``, ``terms``:
    whether it takes these."""

    def __init__(
        self,
        order: Callable[..., Host],
        told: str,
        undo: str | None = "",
        *,
        limits: bool = False,
        terms: bool = False,
    ) -> None:
        super().__init__()
        self._order, self._told, self._undo = order, told, undo
        self._limits, self._terms = limits, terms
        if limits:
            self.help = (
                "Orders a delay, a concurrency or hours for a host, for all tasks and nodes."
            )

    def add_arguments(self, parser: ArgumentParser) -> None:
        _add_name(parser)
        if self._limits:
            parser.add_argument(
                "--delay", type=float, metavar="SECONDS", help="between two requests"
            )
            parser.add_argument("--concurrency", type=int, metavar="N", help="requests in flight")
            for name in gates.names():
                parser.add_argument(f"--{name}", metavar="RULE", help=str(rule_of(name).help))
        if self._terms:
            _add_terms(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        name, given = options["name"], dict[str, Any]()
        if self._limits:
            given = {key: options[key] for key in ("delay", "concurrency")}
            given["rules"] = {name: options[name] for name in gates.names() if options[name]}
        if self._terms:
            given["terms"] = Terms(ahead(options["until"]), options["note"])
        before = Host.objects.filter(name=name).first()
        self._order(name, WHO, **given)
        self.console.print(facts_table(facts(read([get_host(name)])[0])))
        undo = self._undo and f"host {self._undo} {name}"
        self.done(f"{name}: {self._told}", _restores(name, before) if undo == "" else undo)


class Command(Noun):
    verbs = {
        "list": ListHosts,
        "show": ShowHost,
        "pause": partial(OrderHost, orders.pause, "paused", "resume", terms=True),
        "resume": partial(OrderHost, orders.resume, "resumed", "pause"),
        "set": partial(OrderHost, orders.order, "the order is changed", limits=True, terms=True),
        "clear": partial(OrderHost, orders.clear, "the order is cleared"),
        "forget-robots": partial(
            OrderHost, orders.forget_robots, "its robots.txt is fetched again", None
        ),
    }


def _add_name(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="a host as it is in links: example.com:8080")


def _add_terms(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--until",
        type=read_moment,
        metavar="TIME",
        help="when it ends: 2026-01-31T18:00 (UTC), or 90m, 2h, 3d from now; without it, not "
        "before it is resumed or cleared",
    )
    parser.add_argument("--note", default="", help="why, for colleagues")


def _restores(name: str, host: Host | None) -> str:
    """The words of a command that gives a host its order again; without one, that clear it."""
    if host is None or host.ordered_at is None:
        return f"host clear {name}"
    limits = {"delay": host.delay, "concurrency": host.concurrency, **host.gates}
    given = [f"--{key}={value}" for key, value in limits.items() if value is not None]
    return shlex.join(["host", "set" if given else "pause", name, *given])


def _state(now: HostNow) -> Text:
    label, tone = LABELS[now.condition]
    return Text(str(label), STYLES[tone])


def last_answer(host: Host) -> str:
    """The last status, or why there was none."""
    if host.last_status is not None:
        return str(host.last_status)
    return plain(host.last_reason) or "-"


def facts(now: HostNow) -> list[tuple[str, str]]:
    host, state = now.host, now.state
    label = str(LABELS[now.condition][0])
    found = [
        ("host", host.name),
        ("state", ": ".join(filter(None, (label, why(now))))),
        ("rate now", speed(now.rate)),
        ("allowed", allowed(now)),
        ("queue", f"{state.queued:,} ready, {state.in_flight:,} in flight"),
        ("pages", f"{host.pages:,}, {host.errors:,} of them errors, {host.bytes:,} bytes"),
        ("statuses", statuses(host) or "-"),
        ("last", " ".join(filter(None, (last_answer(host), moment(host.last_at))))),
    ]
    if host.latency_ms is not None:
        found.append(("latency", f"{host.latency_ms:,.0f} ms"))
    if state.pages:
        found.append(("blocks", f"{state.blocks} of the last {state.pages} pages"))
    found.append(("robots.txt", robots(now)))
    if state.address:
        found.append(("address", state.address))
    if host.ordered_at:
        found.append(("order", order(host)))
    if tasks := tasks_of(host):
        found.append(("tasks", "  ".join(f"{task} ({n:,})" for task, n in sorted(tasks.items()))))
    return found


def allowed(now: HostNow) -> str:
    """The limit that the delay and the concurrency in force give."""
    if not now.live or (now.gap is None and now.state.concurrency is None):
        return "as its tasks allow"
    kind = " (adaptive)" if now.state.gap is not None else ""
    gap = f"one request each {now.gap:.3g} s{kind}" if now.gap else "no delay"
    return f"{gap}, {now.state.concurrency or '?'} at a time"


def statuses(host: Host) -> str:
    """The most frequent first."""
    ordered = sorted(host.statuses.items(), key=lambda pair: -pair[1])
    return "  ".join(f"{'no answer' if s == '0' else s} {n:,}" for s, n in ordered)


def robots(now: HostNow) -> str:
    if now.robots_wait is not None:
        return f"unreachable, tried again {moment(now.robots_wait)}"
    if now.robots_until is None:
        return "not known now"
    asks = f", asks for {now.state.robots_delay:g} s" if now.state.robots_delay else ""
    return f"known until {moment(now.robots_until)}{asks}"


def order(host: Host) -> str:
    parts = [
        "paused" if host.paused else "",
        f"delay {host.delay:g} s" if host.delay is not None else "",
        f"concurrency {host.concurrency}" if host.concurrency is not None else "",
        *(f"{name} {value}" for name, value in host.gates.items()),
        f"until {moment(host.order_until)}" if host.order_until else FOREVER,
        f"by {host.ordered_by or 'a command'} {moment(host.ordered_at)}",
        "not in Redis yet" if host.unsent else "",
        host.note,
    ]
    return ", ".join(filter(None, parts))


def moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else ""
