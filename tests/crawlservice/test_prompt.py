"""The terminal of prompts, and whether a crawl offers them."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path

import pytest

from crawlframe.code.registry import Registry
from crawlframe.shell.shell import SOCKET
from crawlservice.cli.prompt import PromptServer, wants_prompts


def test_a_callback_that_waits_is_answered() -> None:
    asked: list[str] = []
    written: list[str] = []
    answers: list[str | type[BaseException]] = ["1 + 1", KeyboardInterrupt, EOFError]

    def ask(prompt: str) -> str:
        asked.append(prompt)
        answer = answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer

    with PromptServer(ask, written.append) as server:
        place = server.environment[SOCKET]
        assert stat.S_IMODE(Path(place).parent.stat().st_mode) == 0o700
        assert not server.waits
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(place)
            assert server.waits
            line.sendall(b'{"write": "hi\\u001b[2J"}\n{"ask": ">>> "}\n')
            line.sendall(b'{"ask": "... "}\n{"ask": ">>> "}\n')
            line.shutdown(socket.SHUT_WR)
            server.serve()
            got = [json.loads(one) for one in line.makefile("r")]
    assert got == [{"line": "1 + 1"}, {"interrupt": True}, {"end": True}]
    assert asked == [">>> ", "... ", ">>> "]
    assert written == ["hi\ufffd[2J", "\n"]
    assert not Path(place).parent.exists()


def test_the_tab_key_asks_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    readline = pytest.importorskip("readline")

    def ask(prompt: str) -> str:
        complete = readline.get_completer()
        return f"{complete('resp', 0)} {complete('resp', 1)}"

    before = readline.get_completer()
    with PromptServer(ask, str) as server, socket.socket(socket.AF_UNIX) as line:
        line.connect(server.environment[SOCKET])
        line.sendall(b'{"ask": ">>> "}\n{"found": "response"}\n{"found": null}\n')
        line.shutdown(socket.SHUT_WR)
        server.serve()
        got = [json.loads(one) for one in line.makefile("r")]
    assert got == [
        {"complete": "resp", "state": 0}, {"complete": "resp", "state": 1},
        {"line": "response None"},
    ]  # fmt: skip
    assert readline.get_completer() == before


@pytest.mark.parametrize(
    ("source", "wanted"),
    [("from crawlframe.shell.shell import inspect\n", True), ("import inspect\n", False)],
)
def test_they_are_offered_to_spiders_that_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, wanted: bool
) -> None:
    package = tmp_path / "prompted"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "shop.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry.load(package)
    assert wants_prompts(registry, "prompted") is wanted
