"""Failure: the message about a module that does not load: file, line, error, the author's part of
the traceback."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from crawlframe.code import source
from crawlframe.code.source import LoadTimeout

# Django's message for a model whose app is not installed.
_NO_APP = re.compile(r"Model class (\S+) doesn't declare an explicit app_label")
ENGINE = Path(__file__).parent.parent
OUR_FRAMES = (
    "<frozen importlib",
    importlib.__file__,
    source.__file__,
    str(Path(__file__).with_name("registry.py")),
    str(Path(__file__).with_name("trace.py")),
)


def describe_failure(error: BaseException, path: Path, owns: Callable[[str], bool]) -> str:
    report = traceback.TracebackException.from_exception(error)
    links: list[traceback.TracebackException | None] = [report]
    while links:
        link = links.pop()
        if link is not None:
            kept = [frame for frame in link.stack if not frame.filename.startswith(OUR_FRAMES)]
            link.stack = traceback.StackSummary.from_list(kept)
            links += [link.__cause__, link.__context__]
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno or 1}"
    else:
        # The innermost line of the author's own files is more useful than one deep in a library.
        stack = report.stack
        mine = [frame for frame in stack if owns(frame.filename) and not _engine(frame.filename)]
        mine = mine or [*stack]
        place = f"{mine[-1].filename}:{mine[-1].lineno}" if mine else f"{path}:1"
    text = "".join(report.format()).rstrip()
    if not report.stack:
        text = text.removeprefix("Traceback (most recent call last):\n")
    return f"{place}: {_one_line(error)}\n{text}"


def _one_line(error: BaseException) -> str:
    words = error.msg if isinstance(error, SyntaxError) else str(error)
    line = words.strip().partition("\n")[0]
    if isinstance(error, LoadTimeout):
        return line
    if isinstance(error, ModuleNotFoundError) and _is_to_install(error.name):
        line += ": install it on this node"
    if found := _NO_APP.search(line):
        line = (
            f"the app of {found[1]} is not in CRAWLFRAME_APPS of this node, and django.setup() "
            "adds none; name it and restart"
        )
    return f"{type(error).__name__}: {line}".removesuffix(": ")


def _is_to_install(module: str | None) -> bool:
    """Whether nothing of that name exists. If a package does, only a part is misspelled."""
    top = (module or "").partition(".")[0]
    try:
        return bool(top) and top not in sys.modules and importlib.util.find_spec(top) is None
    except (ImportError, ValueError):
        return False


def _engine(file: str) -> bool:
    return Path(file).is_relative_to(ENGINE)


def standing_in(error: BaseException) -> str | None:
    """The module whose import an error interrupted."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = [
        frame.f_globals.get("__name__") for frame in frames if frame.f_code.co_name == "<module>"
    ]
    return names[-1] if names else None
