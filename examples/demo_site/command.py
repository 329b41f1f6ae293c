"""The command that crawls the demo site, as a variant of the command crawl."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from crawlframe.errors import ArgumentError
from crawlservice.accounts.journal import change
from crawlservice.cli.crawl import Crawl, CrawlFailed
from crawlservice.connections.frontier import frontier
from crawlservice.management.commands.crawl import Command as CrawlCommand
from crawlservice.models import Task
from crawlservice.tasks.submit import cancel
from examples.demo_site import DemoServer, DemoSiteError
from examples.demo_site.verify import compare

PROGRAM = "python -m examples.demo_site.crawl"
LOOPBACK = "127.0.0.1/32"


@dataclass(kw_only=True)
class DemoCrawl(Crawl):
    """A crawl of a site that ends with it. Its node may fetch from this machine."""

    server: DemoServer
    is_right: bool = True

    def run(self) -> None:
        """Raises errors of Crawl.run, and CrawlFailed if a node would refuse the site, the site
        cannot be served, or not all items are as generated."""
        for node in frontier().leases.nodes():
            if node.lease_left > 0 and not node.leaving and not _allows_loopback(node.private):
                raise CrawlFailed(
                    f"node {node.node} (process {node.pid} on {node.machine}) would take part and "
                    "refuse the demo site; stop it, or start it with "
                    f"CRAWLFRAME_ALLOW_PRIVATE={LOOPBACK}"
                )
        try:
            with self.server as server:
                count = f"{server.site.listings:,}"
                self.console.print(f"demo site with {count} listings on {server.url}")
                self.arguments["site"] = server.url
                super().run()
        except DemoSiteError as error:
            raise CrawlFailed(f"demo site: {error}") from None
        if not self.is_right:
            raise CrawlFailed("the items are not those of the demo site")

    def put_aside(self, task: Task) -> str:
        """Cancels it, so that the next node does not run into a site that is gone."""
        change("cancel", cancel, task.pk, command=True)
        return f"Task {task.pk} is cancelled, because its demo site ends with this command"

    def verdicts(self, task: Task) -> Iterable[tuple[str, str]]:
        self.is_right, verdict = compare(task, self.server.site)
        yield "demo site", verdict

    def again(self) -> str:
        return f"{PROGRAM} -o items.csv"


def _allows_loopback(private: Iterable[str]) -> bool:
    return any(ip_address("127.0.0.1") in ip_network(network) for network in private)


class Command(CrawlCommand):
    help = "Crawls the demo site on this machine, and checks what was stored."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--listings", type=int, help="how many houses (5000)")
        parser.add_argument("--latency", type=float, help="ms before each answer (0)")

    def run(self, spider: str, arguments: dict[str, str], options: dict[str, Any]) -> None:
        if "site" in arguments:
            raise ArgumentError("the demo has a site of its own; leave out -a site=…")
        city = arguments.get("city")
        given = {"listings": options["listings"], "latency": options["latency"], "city": city}
        try:
            server = DemoServer(**{k: v for k, v in given.items() if v is not None})
        except ValueError as error:
            raise ArgumentError(f"demo site: {error}") from None
        allowed = f"{os.environ.get('CRAWLFRAME_ALLOW_PRIVATE', '')} {LOOPBACK}".strip()
        DemoCrawl(
            spider,
            arguments,
            server=server,
            environment={"CRAWLFRAME_ALLOW_PRIVATE": allowed},
            **self.common(options),
        ).run()
