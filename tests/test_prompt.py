"""The prompt that is opened, and its place."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlframe.shell import prompt

IPYTHON = """
import asyncio
class InteractiveShellEmbed:
    said = []
    @classmethod
    def clear_instance(cls): pass
    @classmethod
    def instance(cls, config, user_ns, banner1, exit_msg):
        cls.said.append(("IPython", user_ns, banner1.strip()))
        return lambda: asyncio.run(asyncio.sleep(0))  # as its own prompt does
"""
PTPYTHON = """
def embed(globals, locals):
    print("got", input("> "), globals["price"])
    globals["price"] = 5
    raise SystemExit
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes modules that stand for IPython and ptpython, which may be missing here."""
    names = ("IPython", "ptpython")
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] in names}
    monkeypatch.syspath_prepend(tmp_path)

    def install_(**files: str) -> None:
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        importlib.invalidate_caches()

    yield install_
    for name in [*sys.modules]:
        if name.split(".")[0] in names:
            del sys.modules[name]
    sys.modules.update(kept)


def test_ipython_comes_first_also_in_a_callback(install: Callable[..., None]) -> None:
    """A callback is called by an event loop, where IPython's own loop could not run."""
    install(
        IPython____init__="",
        IPython__terminal__embed=IPYTHON,
        IPython__terminal__ipapp="def load_default_config(): ...",
        ptpython____init__="",
    )
    names = {"price": 3}

    async def callback() -> bool:
        prompt.open_prompt(names, "inspect")
        return asyncio.get_running_loop().is_running()

    assert asyncio.run(callback())
    found: Any = importlib.import_module("IPython.terminal.embed")
    assert found.InteractiveShellEmbed.said == [("IPython", names, "inspect")]


def test_ptpython_comes_next(
    install: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(IPython="raise ImportError", ptpython____init__="", ptpython__repl=PTPYTHON)
    monkeypatch.setattr("builtins.input", lambda prompt: "it")
    names = {"price": 3}
    prompt.open_prompt(names, "inspect")
    assert capsys.readouterr().out == "inspect\ngot it 3\n"
    assert names["price"] == 5


def test_else_it_is_pythons_own(
    install: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    readline = pytest.importorskip("readline")
    importlib.import_module("rlcompleter")  # sets a completer
    install(IPython="raise ImportError", ptpython="raise ImportError")
    lines = ["found = price + 1", "price"]
    completed = []

    def read(prompt: str) -> str:
        completed.append(readline.get_completer()("pric", 0))
        if not lines:
            raise EOFError
        return lines.pop(0)

    monkeypatch.setattr("builtins.input", read)
    before = readline.get_completer()
    names = {"price": 3}
    prompt.open_prompt(names, "inspect")
    assert names["found"] == 4
    assert completed[0] == "price"
    assert readline.get_completer() == before
    said = capsys.readouterr()
    assert "inspect" in said.err
    assert "3\n" in said.out
