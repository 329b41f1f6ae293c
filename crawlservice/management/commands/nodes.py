"""nodes: the living nodes, the code each runs, and what it refused."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections import defaultdict
from dataclasses import asdict
from textwrap import indent
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import CommandError
from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone
from rich.table import Table

from crawlframe.base.program import command
from crawlservice.accounts.journal import record
from crawlservice.cli.command import Command as ServiceCommand
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


class Command(ServiceCommand):
    help = "Lists the nodes of the cluster: the code each one runs, and how its last reload went."
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
        parser.add_argument(
            "--check",
            action="store_true",
            help="only fail if the node CRAWLFRAME_NODE is not running (not while Redis is "
            "unreachable, because nothing is known then)",
        )
        parser.add_argument(
            "--forget", metavar="NAME", help="remove this offline node from the list"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["check"]:
            self._check(settings.CRAWLFRAME.node)
            return
        if options["forget"] is not None:
            forget(options["forget"])
            record("forget node", command=True, node=options["forget"])
            self.stdout.write(f"node {plain(options['forget'])} was removed from the list")
            return
        nodes = read()
        if options["json"]:
            found = {
                "nodes": [*map(_told, nodes)],
                "versions": versions(nodes),
                "unreadable": unreadable(),
            }
            self.stdout.write(json.dumps(found, cls=DjangoJSONEncoder, indent=2))
            return
        if aside := unreadable():
            self.stdout.write(
                f"{aside} rows in Redis could not be read and were set aside; list them: "
                f"{command('quarantine')}"
            )
        if not nodes:
            self.stdout.write(f"no node is running; start one: {command('runcrawler')}")
            return
        self.console.print(node_table(nodes))
        for title, text in problems(nodes):
            self.stdout.write(f"\n{plain(title)}\n{indent(plain(text), '    ')}")
        if skew := skew_line(nodes):
            self.stdout.write(f"\n{plain(skew)}")

    def _check(self, name: str) -> None:
        known = by_generation()
        if known is None:
            self.stdout.write(why_unknown())
        elif not any(node.node == name and node.state != OFFLINE for node in known.values()):
            raise CommandError(f"node {name} is not running")
        else:
            self.stdout.write(f"node {name} lives")


def node_table(nodes: list[Node]) -> Table:
    """Columns that no node needs are left out: refused or tried code, the share of the hosts, and
    pulled revisions."""
    table = Table("node", "state", box=None, pad_edge=False, header_style="bold")
    table.add_column("for", justify="right")
    table.add_column("code", no_wrap=True)
    candidates = any(node.candidate for node in nodes)
    if candidates:
        table.add_column("candidate", no_wrap=True)
    for name in ("reloads", "last took", "workers"):
        table.add_column(name, justify="right")
    shares = any(node.share is not None for node in nodes)
    if shares:
        table.add_column("hosts", justify="right")
    table.add_column("process")
    followed = any(node.follows for node in nodes)
    if followed:
        table.add_column("follows")
    for node in nodes:
        cells = [node.node, node.state, _age(node), _code(node)]
        if candidates:
            cells.append(node.candidate or "-")
        took = f"{node.seconds:.2f} s" if node.seconds else "-"
        cells += [f"{node.reloads:,}", took, str(node.workers)]
        if shares:
            cells.append("-" if node.share is None else f"{100 * node.share:.0f} %")
        cells.append(f"{node.pid} on {node.machine}, generation {node.generation}")
        if followed:
            cells.append(f"{node.follows} at {node.pulled or '?'}" if node.follows else "-")
        table.add_row(*map(plain, cells))
    return table


def problems(nodes: list[Node]) -> list[tuple[str, str]]:
    """What was refused or does not load, each listed once for all nodes that have it: (title, text
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
