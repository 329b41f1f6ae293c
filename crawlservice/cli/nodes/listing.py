"""node list, node check, node forget: the nodes, the code of each, and the code it refused."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from textwrap import indent
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone

from crawlframe.base.program import command
from crawlservice.accounts.journal import record
from crawlservice.cli.command import JsonCommand, ServiceCommand
from crawlservice.cli.listing import Listing, attributes
from crawlservice.cli.terminal import plain
from crawlservice.display import duration
from crawlservice.monitoring.lives import forget
from crawlservice.monitoring.nodes import (
    OFFLINE,
    Node,
    by_generation,
    read,
    skew_line,
    unreadable,
    versions,
    why_unknown,
)


def _told(node: Node) -> dict[str, Any]:
    told = asdict(node)
    health = msgspec.to_builtins(told.pop("health"))
    return {**told, **health, "condition": node.condition, "troubles": node.troubles}


class ListNodes(JsonCommand):
    help = "Lists the nodes of the cluster: the code each one runs, and how its last reload went."
    needs_database = False

    def handle(self, *args: Any, **options: Any) -> None:
        nodes = read()
        if options["json"]:
            found = {
                "nodes": [*map(_told, nodes)],
                "versions": versions(nodes),
                "unreadable": unreadable(),
            }
            self.show_json(found)
            return
        if aside := unreadable():
            self.stdout.write(
                f"{aside} rows in Redis could not be read and were set aside; list them: "
                f"{command('store quarantine')}"
            )
        if not nodes:
            self.stdout.write(f"no node is running; start one: {command('runcrawler')}")
            return
        self.show_list(listing(nodes), nodes, False)
        for title, text in problems(nodes):
            self.stdout.write(f"\n{plain(title)}\n{indent(plain(text), '    ')}")
        if skew := skew_line(nodes):
            self.stdout.write(f"\n{plain(skew)}")


class CheckNode(ServiceCommand):
    help = (
        "Fails if the node CRAWLFRAME_NODE is not running (not while Redis is unreachable, because "
        "nothing is known then)."
    )
    needs_database = False

    def handle(self, *args: Any, **options: Any) -> None:
        name, known = settings.CRAWLFRAME.node, by_generation()
        if known is None:
            self.stdout.write(why_unknown())
        elif not any(node.node == name and node.state != OFFLINE for node in known.values()):
            raise CommandError(f"node {name} is not running")
        else:
            self.stdout.write(f"node {name} lives")


class ForgetNode(ServiceCommand):
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="an offline node")

    def handle(self, *args: Any, **options: Any) -> None:
        forget(options["name"])
        record("forget node", command=True, node=options["name"])
        told = plain(f"node {options['name']} was removed from the list")
        self.done(told, None, by_hand="start it, and it appears again")


def listing(nodes: list[Node]) -> Listing[Node]:
    """Columns that no node needs are left out: refused or tried code, the share of the hosts, and
    pulled revisions."""
    columns: dict[str, Callable[[Node], Any]] = {
        **attributes("node", "state"),
        "for": _age,
        "code": _code,
        **attributes("candidate", "reloads"),
        "last took": lambda node: f"{node.seconds:.2f} s" if node.seconds else None,
        **attributes("workers"),
        "hosts": lambda node: None if node.share is None else f"{100 * node.share:.0f} %",
        "process": lambda node: f"{node.pid} on {node.machine}, generation {node.generation}",
        "follows": lambda node: f"{node.follows} at {node.pulled or '?'}" if node.follows else None,
    }
    for name in ("candidate", "hosts", "follows"):
        if not any(map(columns[name], nodes)):
            del columns[name]
    return Listing("nodes", columns, "no node is running")


def problems(nodes: list[Node]) -> list[tuple[str, str]]:
    """Code that nodes refused or that does not load, listed once for all its nodes: (title, text
    with file, line and traceback)."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for node in nodes:
        if node.problem:
            what = f"refused: {node.candidate}" if node.state == "refused" else "does not load in"
            if node.state != "refused":
                what += f" {node.version or node.candidate or 'the first version'}"
            found[what, node.problem].append(node.node)
        if node.pull_problem:
            found[f"not pulled: {node.follows}", node.pull_problem].append(node.node)
        if node.state == OFFLINE and node.since:
            held = f"; it held {node.given_back:,} requests, which other nodes run" * bool(
                node.given_back
            )
            text = f"since {node.since:%Y-%m-%d %H:%M:%S} UTC{held}"
            found["offline:", text].append(node.node)
        for trouble in node.troubles:
            found["abnormal:", trouble].append(node.node)
    return [(f"{what}  ({', '.join(names)})", text) for (what, text), names in found.items()]


def _age(node: Node) -> str:
    if node.since is None:
        return "-"
    # The clock of the node's machine may be ahead of ours.
    return duration(max(0.0, (timezone.now() - node.since).total_seconds()))


def _code(node: Node) -> str:
    return f"{node.version or '-'}{' (differs)' if node.skew else ''}"
