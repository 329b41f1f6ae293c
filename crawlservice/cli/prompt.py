"""The terminal's side of `inspect`: callbacks that stop in a worker are looked into here."""

from __future__ import annotations

import json
import select
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from crawlframe.code.package import find_package
from crawlframe.code.registry import Registry
from crawlframe.shell.prompt import completion
from crawlframe.shell.shell import SOCKET
from crawlservice.cli.listing import plain

STOPS = ("crawlframe.shell", "breakpoint(")  # in the source of spiders that open a prompt
DAY = 86_400  # seconds: a prompt has no hurry


class PromptServer:
    """Listens on a socket in a directory that only this user can enter. ``ask`` reads a line from
    the terminal, ``write`` writes to it."""

    def __init__(
        self,
        ask: Callable[[str], str] = input,
        write: Callable[[str], object] = sys.stdout.write,
    ) -> None:
        self._ask = ask
        self._write = write
        self._place = Path(tempfile.mkdtemp(prefix="crawlframe-"))
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self._place / "prompt"))
        self._socket.listen()

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the node whose callbacks may stop."""
        return {SOCKET: str(self._place / "prompt"), "CRAWLFRAME_DEADLINE": str(DAY)}

    def __enter__(self) -> PromptServer:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()
        shutil.rmtree(self._place, ignore_errors=True)

    @property
    def waits(self) -> bool:
        """Whether a callback has stopped at a prompt."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def serve(self) -> None:
        """Serves the callback that has waited the longest, until its prompt is left or its worker
        has died."""
        line, _ = self._socket.accept()
        coding: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogatepass"}
        with line, line.makefile("r", **coding) as heard, suppress(OSError):

            def completed(text: str, state: int) -> str | None:
                _send(line, {"complete": text, "state": state})
                found = json.loads(heard.readline() or "{}").get("found")
                return found and plain(found)

            for message in iter(heard.readline, ""):
                match json.loads(message):
                    case {"write": str(text)}:
                        self._write(plain(text))
                    case {"ask": str(prompt)}:
                        with completion(completed):
                            _send(line, self._answer(prompt))

    def _answer(self, prompt: str) -> dict[str, object]:
        try:
            return {"line": self._ask(prompt)}
        except EOFError:
            self._write("\n")
            return {"end": True}
        except KeyboardInterrupt:
            return {"interrupt": True}


def _send(line: socket.socket, message: dict[str, object]) -> None:
    line.sendall(f"{json.dumps(message)}\n".encode())


def wants_prompts(registry: Registry, package: str) -> bool:
    """Whether the source of the spiders, or of modules that they import, names `inspect`'s
    module or calls breakpoint()."""
    directory = find_package(package)
    files = [*registry.files, *(directory.rglob("*.py") if directory else ())]
    texts = (_text(path) for path in files if path.suffix == ".py")
    return any(word in text for text in texts for word in STOPS)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
