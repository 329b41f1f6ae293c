"""Prompts for authors: a page in the browser, and a callback that stops to be looked into."""

from __future__ import annotations

import code
import contextlib
import html
import io
import json
import mimetypes
import os
import re
import socket
import sys
import tempfile
import webbrowser
from pathlib import Path
from types import FrameType
from typing import Any

from crawlframe.base.program import command
from crawlframe.errors import SpiderError
from crawlframe.response.response import Response
from crawlframe.shell.prompt import completer_of, open_prompt
from crawlframe.spider.spider import Spider

# The socket of the command that opens prompts for this node; internal, so without our prefix.
SOCKET = "_CRAWLFRAME_PROMPT"
SUFFIXES = {"html": ".html", "json": ".json", "xml": ".xml", "text": ".txt"}

_HEAD = re.compile(r"<head(?:\s[^>]*)?>|<html(?:\s[^>]*)?>|<!doctype[^>]*>", re.I)

_here = False  # whether prompts may use the terminal of this process


def view(response: Response) -> Path:
    """Opens the page in a browser, from a temporary file, and returns the path of that file. Links,
    images and styles of an HTML page lead to its site. Without a display the path is printed."""
    descriptor, name = tempfile.mkstemp(_suffix(response), "crawlframe-")
    with os.fdopen(descriptor, "wb") as file:
        file.write(_page(response) if response.kind == "html" else response.body)
    path = Path(name)
    if not (_has_display() and webbrowser.open(path.as_uri())):
        print(f"no browser can be opened here; the page is in {path}")
    return path


def inspect(response: Response | None = None) -> None:
    """Stops the callback, and opens a prompt with its variables: ``response``, ``request``,
    ``spider``, ``view`` and all that it can see. Ctrl-D continues.

    It works during ``manage.py crawl`` and ``manage.py parse`` in a terminal. Elsewhere there is no
    terminal: it raises SpiderError at once."""
    stop(sys._getframe(1), "inspect", response)


def stop(frame: FrameType, called: str, response: Response | None) -> None:
    """Opens the prompt with the variables of ``frame``. ``called``: name of the function that its
    code called. Raises SpiderError without a terminal."""
    names = {**frame.f_globals, **frame.f_locals, "view": view}
    spider = frame.f_locals.get("self")
    if isinstance(spider, Spider):
        names["spider"] = spider
    if response is not None:
        names |= {"response": response, "request": response.request}
    place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}, {frame.f_code.co_name}"
    banner = f"{called} in {place}" + (f": {response!r}" if response is not None else "")
    banner += "\nThe variables of the callback are here; view(response). Ctrl-D continues."
    if path := os.environ.get(SOCKET):
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(path)
            with contextlib.suppress(SystemExit):  # exit() leaves the prompt, not the crawl
                _Distant(names, line).interact(banner, exitmsg="")
    elif _here:
        open_prompt(names, banner)
    else:
        raise SpiderError(
            f"{called} opens a prompt, and nobody could answer it here; run `{command('crawl')}` "
            f"or `{command('parse')}` in a terminal, and remove the call for other nodes"
        )


def allow_here() -> None:
    """From now on ``inspect`` uses the terminal of this process."""
    global _here
    _here = True


class _Distant(code.InteractiveConsole):
    """A prompt on another process's terminal. Lines of JSON go both ways: ``write``, ``ask`` and
    ``found`` from here, ``line``, ``interrupt``, ``end`` and ``complete`` from there."""

    def __init__(self, names: dict[str, Any], line: socket.socket) -> None:
        super().__init__(names)
        self._line = line
        self._heard = line.makefile("r", encoding="utf-8", errors="surrogatepass")
        self._complete = completer_of(names)

    def raw_input(self, prompt: str = "") -> str:
        self._send(ask=prompt)
        while True:
            match json.loads(self._heard.readline() or '{"end": true}'):
                case {"line": str(text)}:
                    return text
                case {"interrupt": True}:
                    raise KeyboardInterrupt
                case {"complete": str(text), "state": int(state)}:
                    self._send(found=self._complete(text, state))
                case _:
                    raise EOFError

    def write(self, data: str) -> None:
        self._send(write=data)

    def runcode(self, what: Any) -> None:
        with contextlib.redirect_stdout(_Writer(self)), contextlib.redirect_stderr(_Writer(self)):
            super().runcode(what)

    def _send(self, **message: str | None) -> None:
        with contextlib.suppress(OSError):  # the command has ended: no answer will come
            self._line.sendall(f"{json.dumps(message)}\n".encode())


class _Writer(io.TextIOBase):
    def __init__(self, console: _Distant) -> None:
        self._console = console

    def write(self, text: str) -> int:
        self._console.write(text)
        return len(text)


def _page(response: Response) -> bytes:
    """The page in UTF-8, with the address of its site as the first base: the first one counts."""
    base = f'<base href="{html.escape(response.base_url)}">'
    text = response.text
    found = [*_HEAD.finditer(text[:100_000])]
    place = next((m.end() for m in found if m[0][:5].lower() == "<head"), None)
    if place is None:
        place = found[-1].end() if found else 0
    return f"\ufeff{text[:place]}{base}{text[place:]}".encode(errors="replace")


def _suffix(response: Response) -> str:
    essence = response.headers.get("Content-Type", "").partition(";")[0].strip()
    return SUFFIXES.get(response.kind) or mimetypes.guess_extension(essence) or ".bin"


def _has_display() -> bool:
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
