"""top: the whole cluster, live, in the terminal."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from rich.live import Live

from crawlframe.errors import ArgumentError
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.keyboard import keyboard
from crawlservice.cli.terminal import PLAIN_EVERY
from crawlservice.cli.top import ClusterView


class Command(ServiceCommand):
    help = (
        "Shows the cluster live: its speed, its nodes and its running tasks. q or Ctrl-C "
        "quits. Without a terminal, it writes a line at intervals."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--every", type=float, metavar="SECONDS",
            help=f"between two updates (1; {PLAIN_EVERY:g} without a terminal)",
        )  # fmt: skip
        parser.add_argument("-n", type=int, metavar="COUNT", help="quit after this many updates")

    def handle(self, *args: Any, **options: Any) -> None:
        every = options["every"]
        if every is not None and not 0 < every < 3600:
            raise ArgumentError(f"--every {every:g} must be more than 0 and less than 3600 seconds")
        try:
            if self.console.is_terminal:
                self._live(every or 1.0, options["n"])
            else:
                self._lines(every or PLAIN_EVERY, options["n"])
        except KeyboardInterrupt:
            pass

    def _live(self, every: float, looks: int | None) -> None:
        view = ClusterView()
        screen = Live(view, console=self.console, screen=True, auto_refresh=False)
        with keyboard() as keys, screen:
            while looks is None or looks > 0:
                view.refresh()
                screen.refresh()
                looks = looks and looks - 1
                if keys.key(every) in ("q", "Q"):
                    return

    def _lines(self, every: float, looks: int | None) -> None:
        view = ClusterView()
        while looks is None or looks > 0:
            view.refresh()
            print(view.line(), file=self.console.file, flush=True)
            looks = looks and looks - 1
            if looks != 0:
                time.sleep(every)
