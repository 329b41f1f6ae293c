"""Project: the folder that holds manage.py, the spiders, the settings (.env) and var/."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from crawlframe.errors import ConfigError

MANAGE = "manage.py"
ENV_FILE = "CRAWLFRAME_ENV_FILE"  # environment variable: another file than .env
ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*)")


def script() -> Path | None:
    """The absolute path of the project's manage.py: the one this process was started with; else the
    nearest one from the working directory upwards; else that of the checkout this package lies in.
    None outside of any project. Links in the path are kept: a deployment may swap them."""
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
    for name, value in _variables(text, path):
        os.environ.setdefault(name, value)


def _variables(text: str, path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        found = ASSIGNMENT.fullmatch(words)
        value = found[2] if found else ""
        quoted = value[:1] in ("'", '"')
        if not found or (quoted and (len(value) < 2 or value[-1] != value[0])):
            raise ConfigError(
                f"{path}:{number}: {words.partition('=')[0]!r} … is not NAME=value; comments need "
                "a line of their own, and a value that begins with a quote must end with one"
            )
        yield found[1], value[1:-1] if quoted else value


def _is_ours(path: Path) -> bool:
    """Whether it is Crawlframe's: other Django projects have a manage.py too."""
    try:
        return b"crawlservice" in path.read_bytes()
    except OSError:
        return False
