"""Project: the folder that holds manage.py, the spiders, the settings (.env) and var/."""

from __future__ import annotations

import os
import sys
from io import StringIO
from pathlib import Path

from dotenv.parser import parse_stream

from crawlframe.base.program import ENTRY_POINT, MANAGE
from crawlframe.errors import ConfigError

ENV_FILE = "CRAWLFRAME_ENV_FILE"  # environment variable: another file than .env
FROM_FILE: set[str] = set()  # variables that have their values from it


def script() -> Path | None:
    """The absolute path of the project's manage.py: this process was started with it; or it is the
    nearest from the working directory upwards; or it is in the checkout of this package. None
    outside of any project. Links in the path are kept: a deployment may swap them."""
    started = Path(sys.argv[0]) if sys.argv else Path()
    if started.name == MANAGE:
        return started.absolute()
    here = Path.cwd()
    package = Path(__file__).resolve().parent
    places = (*(folder / MANAGE for folder in (here, *here.parents)), package.parent / MANAGE)
    return next(filter(_is_ours, places), None)


def directory() -> Path:
    """The project's folder; the working directory where there is none."""
    found = script()
    return (found.parent if found else Path.cwd()).resolve()


def manage_command() -> list[str]:
    """The command that started this process: the same program finds the same spiders. The script of
    the entry point is not named, because an upgrade deletes it for some seconds."""
    typed = Path(sys.argv[0])
    if typed.name == ENTRY_POINT:
        return [sys.executable, "-P", "-m", "crawlservice"]
    return [sys.executable, str((script() or typed).resolve())]


def load_environment(folder: Path) -> None:
    """Adds the variables of the project's ``.env`` to the environment, whose own values win. A file
    named in CRAWLFRAME_ENV_FILE is read instead, and must exist. Raises ConfigError."""
    named = os.environ.get(ENV_FILE, "").strip()
    path = folder / (named or ".env")
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if named:
            raise ConfigError(f"{ENV_FILE}: there is no file {path}") from None
        return
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    given: dict[str, str] = {}  # of two lines the last one wins, as in a shell
    for binding in parse_stream(StringIO(text)):
        name, value = binding.key, binding.value
        if name is not None and value is not None and name.isidentifier():
            given[name] = value
        elif name is not None or binding.error:
            begin = binding.original.string.partition("=")[0].strip()
            raise ConfigError(
                f"{path}:{binding.original.line}: {begin!r} … is not NAME=value; a value that "
                "begins with a quote must end with one, and only a comment may follow"
            )
    FROM_FILE.update(given.keys() - os.environ.keys())
    os.environ.update({name: given[name] for name in given.keys() - os.environ.keys()})


def _is_ours(path: Path) -> bool:
    """Whether it is Crawlframe's: other Django projects have a manage.py too."""
    try:
        return b"crawlservice" in path.read_bytes()
    except OSError:
        return False
