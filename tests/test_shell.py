"""The prompts of authors: a page in the browser, and a callback that stops."""

from __future__ import annotations

import json
import socket
import threading
import webbrowser
from pathlib import Path
from typing import Any

import pytest

from crawlframe import Request, Response, Spider
from crawlframe.errors import SpiderError
from crawlframe.shell import shell
from crawlframe.shell.shell import inspect, view

URL = "http://shop.example/list/a"


def response(body: str, kind: str = "text/html; charset=utf-8", url: str = URL) -> Response:
    return Response(url, 200, {"Content-Type": kind}, body.encode(), Request(url))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The addresses that a browser was given; there is a display."""
    found: list[str] = []

    def open_(url: str) -> bool:
        found.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", open_)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return found


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("<html><head a=b><title>ä", "<html><head a=b>{}<title>ä"),
        ("<!doctype html><html lang=de><body>", "<!doctype html><html lang=de>{}<body>"),
        ("<!doctype html><p>", "<!doctype html>{}<p>"),
        ("<header>x", "{}<header>x"),
    ],
)
def test_a_page_is_shown_as_on_its_site(opened: list[str], page: str, shown: str) -> None:
    path = view(response(page))
    assert opened == [path.as_uri()]
    assert path.suffix == ".html"
    assert path.read_text("utf-8-sig") == shown.format(f'<base href="{URL}">')


def test_its_own_base_is_kept(opened: list[str]) -> None:
    path = view(response('<head><base href="/x/?a=1&amp;b=2">'))
    assert '<head><base href="http://shop.example/x/?a=1&amp;b=2"><base' in path.read_text()


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("application/json", ".json"), ("text/plain", ".txt"), ("application/pdf", ".pdf"),
        ("application/rss+xml", ".xml"), ("application/x-unknown", ".bin"),
    ],
)  # fmt: skip
def test_other_bodies_are_left_as_they_are(opened: list[str], kind: str, suffix: str) -> None:
    path = view(response('{"a": 1}', kind))
    assert (path.suffix, path.read_bytes()) == (suffix, b'{"a": 1}')


def test_without_a_display_the_path_is_said(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    path = view(response("<p>"))
    assert opened == []
    assert capsys.readouterr().out == f"no browser can be opened here; the page is in {path}\n"


class Shop(Spider):
    name = "shop"

    def parse(self, response: Response) -> Any:
        prices = [3, 4]
        inspect(response)
        yield {"sum": sum(prices)}


def test_where_nobody_answers_it_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(shell.SOCKET, raising=False)
    with pytest.raises(
        SpiderError, match=r"nobody could answer it here; run `.*crawl` or `.*parse`"
    ):
        list(Shop().parse(response("<p>")))


def answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any]) -> str:
    """The output of a callback that stops, given these answers."""
    path = tmp_path / "s"
    monkeypatch.setenv(shell.SOCKET, str(path))
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    written: list[str] = []

    def serve() -> None:
        line, _ = server.accept()
        left = [*answers]
        with line, line.makefile("r") as heard:
            for message in map(json.loads, heard):
                if "write" not in message:
                    written.append(message.get("ask") or f"<{message['found']}>")
                    if not left:
                        return
                    line.sendall(f"{json.dumps(left.pop(0))}\n".encode())
                else:
                    written.append(message["write"])

    thread = threading.Thread(target=serve)
    thread.start()
    items = list(Shop().parse(response("<p>hello")))
    thread.join(5)
    server.close()
    assert items[0]["sum"] in (7, 107)
    return "".join(written)


def test_the_variables_of_the_callback_are_at_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "prices", "response.text", "request.url", "spider.name", "prices.append(100)",
        "for n in [1, 2]:", "    print(n)", "", "1 / 0",
    )  # fmt: skip
    answers: list[dict[str, Any]] = [{"line": line} for line in lines]
    answers[1:1] = [{"complete": "price", "state": 0}, {"complete": "prices.app", "state": 0}]
    said = answered(tmp_path, monkeypatch, *answers, {"interrupt": True}, {"end": True})
    assert "inspect in test_shell.py:" in said
    assert ", parse: <Response 200 http://shop.example/list/a>" in said
    assert "[3, 4]\n" in said
    assert "<prices><prices.append(>" in said
    assert "'<p>hello'\n" in said
    assert f"'{URL}'\n" in said
    assert "'shop'\n" in said
    assert "... ... 1\n2\n" in said.replace(">>> ", "")
    assert "ZeroDivisionError" in said
    assert "KeyboardInterrupt" in said


@pytest.mark.parametrize("answers", [[{"line": "exit()"}], [{"line": "raise SystemExit"}], []])
def test_leaving_the_prompt_goes_on_with_the_callback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, Any]]
) -> None:
    """The last: the command that answered has ended."""
    assert ">>> " in answered(tmp_path, monkeypatch, *answers)
