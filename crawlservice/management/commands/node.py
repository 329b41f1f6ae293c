"""node: nodes of the cluster, the code of each, and rollouts."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from textwrap import indent
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError
from django.utils import timezone
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from crawlframe.base.program import command
from crawlframe.code.checkout import DIGITS
from crawlframe.errors import ArgumentError
from crawlservice.accounts.journal import record
from crawlservice.cli.command import JsonCommand, ServiceCommand, add_dry_run
from crawlservice.cli.exit_code import ExitCode
from crawlservice.cli.listing import Listing, attributes, plain
from crawlservice.cli.noun import Noun
from crawlservice.connections.database import prepare
from crawlservice.connections.frontier import frontier
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
from crawlservice.rollouts.decisions import accept, refuse
from crawlservice.rollouts.rollout import RolloutRun, full_revision
from crawlservice.rollouts.status import NodeStatus, node_statuses

NOTE_EVERY = 2.0  # seconds between two notes where no live view is possible
PAGES, TIMEOUT = 100, 300.0
COMMAND = "a command"  # in the place of a user's name


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


class AcceptVersion(ServiceCommand):
    help = (
        "Lets a version go live that nodes have refused because it loses data on kept pages "
        "(CRAWLFRAME_PREVIEW=ask)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("version", help="as node list shows it")

    def handle(self, *args: Any, **options: Any) -> None:
        version = options["version"]
        names = ", ".join(accept(version, COMMAND))
        record("accept version", command=True, version=version)
        told = plain(f"version {version} goes live on {names}")
        self.done(told, None, by_hand="bring back the code of before; nodes load it")


class RefuseVersion(ServiceCommand):
    help = (
        "Decides that a version that nodes ask about does not go live (CRAWLFRAME_PREVIEW=ask). A "
        "newer one is tried anew."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("version", help="as node list shows it")

    def handle(self, *args: Any, **options: Any) -> None:
        version = options["version"]
        names = ", ".join(refuse(version, COMMAND))
        record("refuse version", command=True, version=version)
        self.done(plain(f"{names}: version {version} is refused"), f"node accept {version}")


def listing(nodes: list[Node]) -> Listing[Node]:
    """Columns that no node needs are left out: refused or tried code, the share of the hosts, and
    pulled revisions."""
    columns: dict[str, Callable[[Node], Any]] = {
        **attributes("node", "state"),
        "for": _age,
        "code": lambda node: f"{node.version or '-'}{' (differs)' if node.skew else ''}",
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
            if node.refused_by:
                what += f", by {node.refused_by}"
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


class RollOut(ServiceCommand):
    help = "Brings all nodes that follow a branch to a revision, and waits until they run it."
    needs_database = False  # except for a canary: a fixed version must get out without it too

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "revision", nargs="?", help="a name that git resolves here, or 40 hex digits"
        )
        parser.add_argument("--canary", metavar="NODE", help="try it on this node first")
        parser.add_argument(
            "--pages", type=int,
            help=f"pages a canary must run without a new kind of error ({PAGES})",
        )  # fmt: skip
        parser.add_argument(
            "--timeout", type=float, default=TIMEOUT, metavar="SECONDS",
            help=f"how long each wait may take ({TIMEOUT:g})",
        )  # fmt: skip
        parser.add_argument("--back", action="store_true", help="allow nodes to go back to it")
        parser.add_argument(
            "--branch", default="", help="the branch, if nodes follow different ones"
        )
        parser.add_argument(
            "--status", action="store_true", help="only show the state of the nodes"
        )
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["status"]:
            if options["revision"]:
                raise ArgumentError("--status does not take a revision; leave it out")
            self._show_status()
            return
        view = NodesView(self.console)
        run = self._new_run(options, view)
        if options["dry_run"]:
            nodes = ", ".join(run.find_nodes())
            self.only_shows(options, plain(f"roll out {run.revision} to: {nodes}"))
            return
        before = frontier().rollouts.current()
        self.stdout.write(f"rolling out {run.revision}")
        with suppress(DatabaseError):  # it must get out without a database too
            canary = options["canary"] or ""
            record("rollout", command=True, revision=run.revision, canary=canary)
        try:
            with view:
                run.run()
        except KeyboardInterrupt:
            self.stderr.write(plain(f"stopped watching; {run.describe()}"))
            sys.exit(ExitCode.INTERRUPTED)
        former = before.revision[:DIGITS] if before and before.branch == run.branch else "REVISION"
        told = f"every living node that follows {run.branch} runs {run.revision[:DIGITS]}"
        self.done(told, f"node rollout {former} --back")

    def _new_run(self, options: dict[str, Any], view: NodesView) -> RolloutRun:
        """Raises ArgumentError, and the errors of ``prepare``."""
        if not options["revision"]:
            raise ArgumentError("name the revision to roll out, or ask for --status")
        if options["pages"] is not None and not options["canary"]:
            raise ArgumentError("--pages requires --canary NODE")
        pages = PAGES if options["pages"] is None else options["pages"]
        if pages < 1:
            raise ArgumentError(f"--pages {pages} must be 1 or more")
        if not options["timeout"] > 0:
            raise ArgumentError(f"--timeout {options['timeout']:g} must be more than 0 seconds")
        revision = full_revision(options["revision"])
        if options["canary"]:
            for warning in prepare():
                self.stderr.write(f"warning: {warning}")
        return RolloutRun(
            revision,
            view.show,
            branch=options["branch"],
            back=options["back"],
            canary=options["canary"] or "",
            pages=pages,
            timeout=options["timeout"],
        )

    def _show_status(self) -> None:
        newest = frontier().rollouts.current()
        if newest is None:
            self.stdout.write("nothing has been announced yet")
        else:
            at = datetime.fromtimestamp(newest.announced_at, UTC)
            whom = ", ".join(newest.nodes) or "all nodes"
            back = ", also back to it" if newest.back else ""
            self.stdout.write(
                plain(f"{at:%Y-%m-%d %H:%M:%S} UTC: {newest.revision[:DIGITS]} of {newest.branch}")
                + plain(f", announced to {whom}{back}")
            )
        if found := node_statuses():
            self.console.print(table(found))
        else:
            self.stdout.write("no node is running")


class NodesView:
    """The state of the nodes, live on a terminal; otherwise a line for each change."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._printed: dict[str, NodeStatus] = {}
        self._note = ""
        self._noted_at = 0.0

    def __enter__(self) -> NodesView:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, found: list[NodeStatus], note: str) -> None:
        if self._live:
            self._live.update(Group(table(found), Text(plain(note), style="dim")), refresh=True)
            return
        for one in found:
            if self._printed.get(one.node) != one:
                self._printed[one.node] = one
                self._print(f"{one.node}: {one.phase}" + (f", {one.why}" if one.why else ""))
        if note not in ("", self._note) and time.monotonic() - self._noted_at > NOTE_EVERY:
            self._note, self._noted_at = note, time.monotonic()
            self._print(note)

    def _print(self, text: str) -> None:
        print(plain(text), file=self._console.file, flush=True)


def table(found: list[NodeStatus]) -> Table:
    made = Table("node", "state", "code", box=None, pad_edge=False, header_style="bold")
    made.add_column("why", overflow="fold")
    for one in found:
        made.add_row(one.node, one.phase, one.version or "-", plain(one.why))
    return made


class Command(Noun):
    verbs = {
        "list": ListNodes,
        "check": CheckNode,
        "forget": ForgetNode,
        "rollout": RollOut,
        "accept": AcceptVersion,
        "refuse": RefuseVersion,
    }
