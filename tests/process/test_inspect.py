"""A callback that stops at a prompt during a crawl in a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time

import pytest

from tests.conftest import _command
from tests.process.conftest import LONGEST_WAIT, Look, OddWeb

pytestmark = pytest.mark.process


class Terminal:
    """A process in a terminal of its own."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command,
            env={**env, "TERM": "xterm", "COLUMNS": "200"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""

    def wait_for(self, words: str, timeout: float = LONGEST_WAIT) -> str:
        """The output up to these words, without earlier output."""
        deadline = time.monotonic() + timeout
        while words not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._master], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self._master, 65536).decode(errors="replace")
                except OSError:  # the process has ended
                    assert words in self.shown, self.shown
        before, _, self.shown = self.shown.partition(words)
        return before + words

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


def test_a_crawl_in_a_terminal_stops_and_goes_on(
    odd_env: dict[str, str], look: Look, web: OddWeb
) -> None:
    web.pages = {"/": []}
    terminal = Terminal(_command(("crawl", "stopping", "-a", f"url={web.url}")), odd_env)
    try:
        terminal.wait_for("one page is crawled at a time")
        banner = terminal.wait_for(">>> ")
        assert re.search(r"inspect in stopping\.py:\d+, parse: <Response 200", banner)
        terminal.type("prices.append(response.status)\n")
        terminal.wait_for(">>> ")
        terminal.type("print('it is', prices, spider.name)\n")
        assert "it is [1, 200] stopping" in terminal.wait_for("stopping\r\n")
        terminal.wait_for(">>> ")
        terminal.type("\x04")
        assert re.search(r"breakpoint in stopping\.py:\d+, parse", terminal.wait_for(">>> "))
        terminal.type("response.status, prices\n")
        assert "(200, [1, 200])" in terminal.wait_for(">>> ")
        terminal.type("\x04")
        terminal.wait_for("finished")
        assert terminal.process.wait(LONGEST_WAIT) == 0
    finally:
        terminal.close()
    assert look.items(1) == [{"prices": [1, 200]}]
