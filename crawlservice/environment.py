"""Environment: which CRAWLFRAME_ variables are used. Django's settings must be loaded before."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import fields

from crawlframe.base.program import command
from crawlframe.conf import PREFIX, Settings
from crawlservice import settings

# Kubernetes sets these in each container next to a service called crawlframe.
_OF_KUBERNETES = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT$|_PORT_\d+_(TCP|UDP)")


def known_names() -> set[str]:
    """The names of all variables that the code reads, here and in ``crawlframe.conf``."""
    of_nodes = {PREFIX + field.name.upper() for field in fields(Settings)}
    return of_nodes | {name for name in settings.READ if name.startswith(PREFIX)}


def warnings(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each CRAWLFRAME_ variable that nothing reads."""
    known = known_names()
    given = (name for name in environment if name.startswith(PREFIX) and name not in known)
    return [_warning(name, known) for name in sorted(given) if not _OF_KUBERNETES.search(name)]


def _warning(name: str, known: set[str]) -> str:
    # Without the prefix, which would make all of them look alike. Some settings have none.
    short = {one.removeprefix(PREFIX): one for one in known | settings.READ.keys()}
    near = difflib.get_close_matches(name.removeprefix(PREFIX).upper(), short, n=1)
    hint = f" (did you mean {short[near[0]]}?)" if near else ""
    return f"{name} is set, but there is no such setting{hint}; {command('config show')} lists them"
