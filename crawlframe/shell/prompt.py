"""Prompt: a prompt in the terminal of this process: IPython or ptpython where it is installed, else
Python's own with completion."""

from __future__ import annotations

import asyncio
import code
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

Prompt = Callable[[dict[str, Any], str], None]


def open_prompt(names: dict[str, Any], banner: str) -> None:
    """Opens the best prompt there is, with these variables, and returns when it is left."""
    prompt = _best_prompt()
    # A callback may have been called by an event loop, where no prompt could run its own.
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        with contextlib.suppress(SystemExit):  # exit() leaves the prompt, not the program
            prompt(names, banner)
    finally:
        asyncio._set_running_loop(loop)


def _best_prompt() -> Prompt:
    for make in (_ipython, _ptpython):
        with contextlib.suppress(ImportError):
            return make()
    return _plain


def _ipython() -> Prompt:
    from IPython.terminal.embed import InteractiveShellEmbed
    from IPython.terminal.ipapp import load_default_config

    def prompt(names: dict[str, Any], banner: str) -> None:
        InteractiveShellEmbed.clear_instance()
        shell = InteractiveShellEmbed.instance(
            config=load_default_config(), user_ns=names, banner1=f"{banner}\n", exit_msg=""
        )
        shell()
        InteractiveShellEmbed.clear_instance()

    return prompt


def _ptpython() -> Prompt:
    from ptpython.repl import embed

    def prompt(names: dict[str, Any], banner: str) -> None:
        print(banner)
        embed(names, names)

    return prompt


def _plain(names: dict[str, Any], banner: str) -> None:
    with completion(completer_of(names)):
        code.InteractiveConsole(names).interact(banner, exitmsg="")


# -- completion -----------------------------------------------------------------------------------


def completer_of(names: dict[str, Any]) -> Callable[[str, int], str | None]:
    """Returns the function that readline asks for one completion after another."""
    from rlcompleter import Completer

    return Completer(names).complete


@contextlib.contextmanager
def completion(complete: Callable[[str, int], str | None]) -> Iterator[None]:
    """A context where the tab key completes the input of ``input``, if there is readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    before = readline.get_completer()
    readline.set_completer(complete)
    uses_editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if uses_editline else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(before)
