"""hosts: the hosts that are crawled, and what operators order for them."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandError
from django.core.serializers.json import DjangoJSONEncoder
from django.utils.dateparse import parse_datetime
from django.utils.timezone import get_current_timezone
from rich.table import Table
from rich.text import Text

from crawlframe import gates
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.terminal import STYLES, facts_table, plain
from crawlservice.connections import clock
from crawlservice.hosts import orders
from crawlservice.hosts.host_labels import LABELS, speed, why
from crawlservice.hosts.names import get_host
from crawlservice.hosts.orders import Terms
from crawlservice.hosts.rules import Which, chosen, rule_of
from crawlservice.hosts.states import HostNow, described, read, tasks_of
from crawlservice.models import Host

WHO = {"command": True}
UNITS = {"m": "minutes", "h": "hours", "d": "days"}
ACTIONS = ("pause", "resume", "clear", "forget_robots")
FOREVER = "no end"


class Command(ServiceCommand):
    help = "Lists hosts, shows one, and gives orders for it that hold for all tasks and nodes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="a host as it is in links: example.com:8080")
        parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
        lists = parser.add_argument_group("lists")
        lists.add_argument("-n", type=int, default=20, metavar="COUNT", help="how many (20)")
        lists.add_argument("--begins", default="", metavar="TEXT", help="names that begin so")
        which = lists.add_mutually_exclusive_group()
        for word, text in (
            (Which.HELD, "only those that block, or have asked for a wait of more than an hour"),
            (Which.PAUSED, "only those that an operator has paused"),
            (Which.ORDERED, "only those with an order"),
            (Which.ERRORS, "only those with errors"),
        ):
            which.add_argument(
                f"--{word}", dest="which", action="store_const", const=word, help=text
            )
        self._add_actions(parser)

    def _add_actions(self, parser: ArgumentParser) -> None:
        orders = parser.add_argument_group("orders, with NAME")
        one = orders.add_mutually_exclusive_group()
        one.add_argument("--pause", action="store_true", help="fetch nothing of it")
        one.add_argument(
            "--resume",
            action="store_true",
            help="end its pause, and its rest if it refused, blocked or was unreachable",
        )
        one.add_argument("--clear", action="store_true", help="end its order, pause included")
        one.add_argument("--forget-robots", action="store_true", help="fetch its robots.txt again")
        orders.add_argument(
            "--delay", type=float, metavar="SECONDS", help="order this delay between two requests"
        )
        orders.add_argument(
            "--concurrency", type=int, metavar="N", help="order this number of requests in flight"
        )
        for name in gates.names():
            orders.add_argument(f"--{name}", metavar="RULE", help=f"order: {rule_of(name).help}")
        orders.add_argument(
            "--until",
            type=read_end,
            metavar="TIME",
            help="when a pause or an order ends: 2026-01-31T18:00 (UTC), or 90m, 2h, "
            "3d from now; without it, not before it is resumed or cleared",
        )
        orders.add_argument("--note", default="", help="why, for colleagues")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"]
        action = next((one for one in ACTIONS if options[one]), "")
        limits = {key: options[key] for key in ("delay", "concurrency")}
        rules = {name: options[name] for name in gates.names() if options[name]}
        ordered = any(value is not None for value in limits.values()) or bool(rules)
        told = ", ".join(f"--{name}" for name in (*limits, *gates.names()))
        if action and ordered:
            raise CommandError(
                f"--{action.replace('_', '-')} does not go with {told}; give one order at a time"
            )
        if (options["until"] or options["note"]) and not (ordered or action == "pause"):
            raise CommandError(f"--until and --note go with --pause, {told}")
        if name is None:
            if action or ordered:
                raise CommandError("name the host that this is for, as in: hosts example.com …")
            self._list(options)
            return
        if options["which"] or options["begins"]:
            raise CommandError("give a name, or which hosts to list; not both")
        terms = Terms(end_of(options["until"]), options["note"])
        if ordered:
            orders.order(name, WHO, **limits, rules=rules, terms=terms)
        elif action == "pause":
            orders.pause(name, WHO, terms)
        elif action:
            getattr(orders, action)(name, WHO)
        self._show(name, options["json"])

    def _list(self, options: dict[str, Any]) -> None:
        rows = chosen(options["which"], options["begins"]).select_related("ordered_by")
        count = max(0, options["n"])
        found = read(rows.order_by("-pk")[: count + 1])
        if options["json"]:
            self._print_json({"hosts": [described(now) for now in found[:count]]})
            return
        if not found:
            self.stdout.write("no hosts; they appear some seconds after they were fetched from")
            return
        self.console.print(host_table(found[:count]))
        if len(found) > count:
            self.stdout.write(f"… and older ones: -n {10 * max(1, count)}")

    def _show(self, name: str, as_json: bool) -> None:
        now = read([get_host(name)])[0]
        if as_json:
            self._print_json(described(now))
        else:
            self.console.print(facts_table(facts(now)))

    def _print_json(self, found: Any) -> None:
        self.stdout.write(json.dumps(found, cls=DjangoJSONEncoder, indent=2))


End = datetime | timedelta | None


def read_end(text: str) -> End:
    """``2026-01-31T18:00``, in UTC if it names no zone, or ``90m``, ``2h``, ``3d`` from now."""
    if match := re.fullmatch(r"(\d{1,6})([mhd])", text):
        return timedelta(**{UNITS[match[2]]: int(match[1])})
    try:
        at = parse_datetime(text)
    except ValueError:
        at = None
    if at is None:
        raise ArgumentTypeError(f"{text!r} is no time; give 2026-01-31T18:00, or 90m, 2h or 3d")
    return at if at.tzinfo else at.replace(tzinfo=get_current_timezone())


def end_of(end: End) -> datetime | None:
    return clock.now() + end if isinstance(end, timedelta) else end


def host_table(hosts: Sequence[HostNow]) -> Table:
    table = Table("host", "state", "why", box=None, pad_edge=False, header_style="bold")
    table.columns[0].overflow = "fold"
    for column in ("rate", "allowed", "queue", "in flight", "pages", "errors", "last", "ms"):
        table.add_column(column, justify="right")
    for now in hosts:
        host, (label, tone) = now.host, LABELS[now.condition]
        latency = "-" if host.latency_ms is None else f"{host.latency_ms:,.0f}"
        numbers = (now.state.queued, now.state.in_flight, host.pages, host.errors)
        table.add_row(
            plain(host.name), Text(str(label), STYLES[tone]),
            plain(why(now)), speed(now.rate), speed(now.allowed),
            *(f"{number:,}" for number in numbers), last_answer(host), latency,
        )  # fmt: skip
    return table


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
    """What the delay and the concurrency in force allow."""
    if not now.live or (now.gap is None and now.state.concurrency is None):
        return "what its tasks allow"
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
