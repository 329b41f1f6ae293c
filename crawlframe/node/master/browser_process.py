"""BrowserProcess: the keeper of a node's browser host. It starts the host when a worker connects,
and again after it has ended; and kills the processes that a host leaves behind.

As a program, it serves one process that is not a node: ``python -m
crawlframe.node.master.browser_process SOCKET SETTINGS``. It ends at the end of its input."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

from crawlframe.base.logs import configure
from crawlframe.conf import Settings
from crawlframe.fetch.browser.settings import FILES, HostDirectory, installed
from crawlframe.node.channel import ChannelClosed
from crawlframe.node.child_process import Child, adopt_orphans, become_child
from crawlframe.node.master import offspring
from crawlframe.node.messages import Beat, FromChildLine, Retire, ServiceReady

LOOK_EVERY = 1.0  # seconds
SILENT_SECONDS = 30.0  # seconds without a sign of life, after which a host is killed
PAUSE = 0.5  # seconds after its end, before a host is started again
BACKLOG = 512  # workers that connect at a time

log = logging.getLogger(__name__)


class BrowserSocket:
    """The address at which the workers of one master find their browser host. Made by the master,
    before it forks a process."""

    def __init__(self) -> None:
        self._directory = HostDirectory()
        self.path = self._directory.socket
        self.listener = listen(self.path)

    @classmethod
    def open(cls, settings: Settings) -> BrowserSocket | None:
        """Returns None if no browser can be used: by the settings, or without Playwright."""
        return cls() if settings.browser_pages and installed() else None

    def spawn(self, settings: Settings) -> Child:
        """Forks a keeper. Its memory is not counted: the host limits the memory of the browser."""

        def main(channel: FromChildLine) -> None:
            BrowserKeeper(settings, self.listener, _Master(channel)).run()

        return Child.spawn("browser", main)

    def close(self) -> None:
        """Removes the socket."""
        self.listener.close()
        self._directory.remove()


def listen(path: Path) -> socket.socket:
    """A listening socket that only this user can connect to."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(BACKLOG)
    return listener


class _Master:
    """The line of a keeper to its master."""

    def __init__(self, channel: FromChildLine) -> None:
        self._channel = channel
        self._channel.send(ServiceReady())

    def fileno(self) -> int:
        return self._channel.fileno()

    def beat(self) -> None:
        """Raises ChannelClosed."""
        self._channel.send(Beat(0, ""))

    def asks_to_end(self) -> bool:
        """Raises ChannelClosed."""
        return any(isinstance(message, Retire) for message in self._channel.receive())


class _Input:
    """The line of a keeper that has no master: its standard input."""

    def fileno(self) -> int:
        return 0

    def beat(self) -> None:
        pass

    def asks_to_end(self) -> bool:
        """Raises ChannelClosed."""
        if not os.read(0, 1024):
            raise ChannelClosed("end of file")
        return False


class BrowserKeeper:
    """``run`` is its life: until it is asked to end and no worker needs the host any more, or until
    its line is closed."""

    def __init__(self, settings: Settings, listener: socket.socket, line: _Master | _Input) -> None:
        self._settings = settings
        self._listener = listener
        self._line = line
        self._directory = Path(listener.getsockname()).parent
        self._host = 0  # its pid
        self._life = -1  # the reading end of its pipe
        self._heard = 0.0  # when it gave a sign of life last (time.monotonic())
        self._next = 0.0  # when one may be started
        self._ending = False

    def run(self) -> None:
        adopt_orphans()  # the processes that a host leaves behind become ours
        used = True
        try:
            while not (self._ending and not self._host):
                self._wait()
                self._reap()
                if self._host and time.monotonic() - self._heard > SILENT_SECONDS:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._host, signal.SIGKILL)
                self._line.beat()
        except ChannelClosed:
            used = False
        finally:
            self._kill()
            if not used:
                shutil.rmtree(self._directory, ignore_errors=True)

    def _wait(self) -> None:
        now = time.monotonic()
        watched: list[int] = [self._line.fileno()]
        if self._host:
            watched.append(self._life)
        elif now >= self._next:
            watched.append(self._listener.fileno())
        readable, _, _ = select.select(watched, [], [], LOOK_EVERY if self._host else PAUSE)
        if self._line.fileno() in readable and self._line.asks_to_end():
            self._ending = True
            if self._host:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._host, signal.SIGTERM)
        if self._host and self._life in readable:
            self._heard = time.monotonic()
            if not os.read(self._life, 1024):
                self._heard = -SILENT_SECONDS  # it has ended, or is about to
        if not self._host and self._listener.fileno() in readable and not self._ending:
            self._start()

    def _start(self) -> None:
        keeper = os.getpid()
        self._life, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(self._life)
            become_child("browser host", keeper, lambda: self._serve(writer))
        os.close(writer)
        self._host, self._heard = pid, time.monotonic()

    def _serve(self, writer: int) -> None:
        # Imported here: it takes time and memory, which nodes without rendered pages save.
        from crawlframe.fetch.browser.host import run_host

        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        run_host(self._settings, self._listener, lambda: os.write(writer, b"."))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._host:
                    code = os.waitstatus_to_exitcode(ended[1])
                    if code:
                        log.warning("the browser host %d ended (%d)", self._host, code)
                    self._host = 0
                    self._kill()
                    return

    def _kill(self) -> None:
        """Kills the processes of the host, and waits until none is left."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
        with contextlib.suppress(ChildProcessError):
            while True:
                offspring.kill(offspring.of(os.getpid()))
                os.waitpid(-1, 0)
        shutil.rmtree(self._directory / FILES, ignore_errors=True)
        self._host, self._next = 0, time.monotonic() + PAUSE


def main(path: str, settings: str) -> None:
    """Runs a keeper for the process that has started this one."""
    configure("WARNING", "browser")
    wanted = Settings.from_env(json.loads(settings))

    def keep() -> None:
        BrowserKeeper(wanted, listen(Path(path)), _Input()).run()

    become_child("browser", os.getppid(), keep)


if __name__ == "__main__":
    main(*sys.argv[1:])
