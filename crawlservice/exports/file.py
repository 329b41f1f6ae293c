"""ExportsFile: exports.toml in the package of the spiders, in the leading node's version. A table
for each export, with the fields of Definition and ``begin``; ``${NAME}`` stands for a variable of
the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crawlframe.code.package import find_package
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError, did_you_mean
from crawlframe.recipes.lines import line_of, lines_of
from crawlservice.models import Export, ExportFile

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from crawlservice.exports.definition import Definition

NAME = "exports.toml"
LOOK_SECONDS = 3.0  # seconds between two looks
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class TargetEntry(NamedTuple):
    definition: Definition
    begin: str
    line: int


class ExportsFile:
    """The file of one node."""

    def __init__(self, node: Settings) -> None:
        self._node = node
        self._seen: tuple[Any, ...] | None = None  # the file that was last applied

    def look(self) -> None:
        """Applies the file if it has changed since the last call, or was never read. Raises
        django.db.Error."""
        path = path_of(self._node)
        seen = _mark(path)
        if seen == self._seen:
            return
        problems = apply(path) if path is not None else _without(self._node.spiders)
        told = {"node": self._node.node, "path": str(path or ""), "problems": problems}
        known = ExportFile.objects.values(*told).first()
        if known != told and (problems or known):
            ExportFile.objects.update_or_create(pk=1, defaults=told)
        # A node without the file counts as one until its exports are deleted, for instance.
        self._seen = seen if path is not None or not problems else None


def path_of(node: Settings) -> Path | None:
    """The path of the file; None if there is none."""
    package = find_package(node.spiders)
    path = package / NAME if package else None
    return path if path is not None and path.is_file() else None


def problems_of(path: Path) -> list[str]:
    """Problems of the file, as far as they are known without the database."""
    return read(path, os.environ)[2]


def _mark(path: Path | None) -> tuple[Any, ...]:
    try:
        found = path.stat() if path else None
    except OSError:
        return ()
    return (str(path), found.st_mtime_ns, found.st_size, found.st_ino) if found else ()


def apply(path: Path) -> list[str]:
    """Adds and changes the exports that the file defines. Exports that it no longer names stop.
    Returns the problems; entries without a mistake are applied. Raises django.db.Error."""
    from crawlservice.exports import changes  # pydantic: most nodes never need it

    entries, names, problems = read(path, os.environ)
    for entry in entries:
        name = entry.definition.name
        row = Export.objects.filter(name=name).first()
        try:
            if row is None:
                changes.add(entry.definition, entry.begin, from_file=True)
            elif not row.from_file:
                problems.append(
                    f"{path}:{entry.line}: {name}: an export of that name was added elsewhere; "
                    "delete it there, or take another name"
                )
            else:
                changes.change(row, entry.definition)
                Export.objects.filter(pk=row.pk).update(listed=True)
        except CrawlframeError as error:
            problems.append(f"{path}:{entry.line}: {name}: {error}")
    if names is not None:
        _forget(names)
    return problems


def _without(spiders: str) -> list[str]:
    """Ends the exports of a file that is gone. Returns the problems. Raises django.db.Error."""
    names = [*Export.objects.filter(from_file=True).values_list("name", flat=True)]
    if not names:
        return []
    if find_package(spiders) is None:  # it says nothing about the file
        return [f"there is no package {spiders} here, so no {NAME}: its exports stay as they were"]
    _forget(())
    return [
        f"there is no {NAME} in {spiders}, so the exports that it defined have ended: "
        f"{', '.join(names)}; delete them, or put the file back"
    ]


def _forget(names: Iterable[str]) -> None:
    """Ends the exports of the file that are not among these; they keep their places."""
    Export.objects.filter(from_file=True, listed=True).exclude(name__in={*names}).update(
        listed=False
    )


def read(
    path: Path, environment: Mapping[str, str]
) -> tuple[list[TargetEntry], set[str] | None, list[str]]:
    """Returns the entries without a mistake, the names of all (None: the file cannot be read), and
    the problems, each with the file, the line and the name."""
    import tomllib

    from pydantic import ValidationError

    from crawlservice.exports.addresses import BadExport
    from crawlservice.exports.definition import Definition, place_of

    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        return [], None, [f"{path}:{line[1] if line else 1}: not TOML: {error}"]
    except (OSError, UnicodeDecodeError) as error:
        return [], None, [f"{path}: it cannot be read: {error}"]
    lines = lines_of(text, "toml")
    entries, problems = [], []
    for name, table in found.items():

        def refuse(place: tuple[str | int, ...], problem: str, name: str = name) -> None:
            number = line_of((name, *place), lines)
            problems.append(f"{path}:{number}: {name}: {problem}")

        if not isinstance(table, dict):
            refuse((), f"write a table [{name}] with target, spider and so on")
            continue
        try:
            table = _filled(table, environment)
            begin = str(table.pop("begin", ""))
            made = Definition.model_validate({"name": name, **table})
            made.check()
            signs = made.target.SIGNS_WITH
            if signs and not getattr(made.target, signs):
                raise BadExport(f"target.{signs}", 'name the secret that signs requests: "${NAME}"')
        except ValidationError as error:
            for one in error.errors():
                loc = place_of(one["loc"])
                refuse(loc, f"{'.'.join(map(str, loc)) or name}: {_fix(one, loc)}")
        except BadExport as error:
            refuse(tuple(error.field.split(".")), str(error))
        except KeyError as error:
            refuse((), f"the environment has no {error.args[0]}; set it on all nodes")
        else:
            entries.append(TargetEntry(made, begin, line_of((name,), lines)))
    return entries, {*found}, problems


def _fix(error: ErrorDetails, place: tuple[str | int, ...]) -> str:
    """A mistake found by pydantic, with its fix."""
    from crawlservice.exports.definition import Definition

    if error["type"] == "missing":
        return "it is missing; add it"
    if error["type"] == "extra_forbidden":
        # Names of a target depend on its kind.
        known = ("begin", *Definition.model_fields) if len(place) == 1 else ()
        return f"there is no such field{did_you_mean(str(place[-1]), known)}"
    return error["msg"]


def _filled(value: Any, environment: Mapping[str, str]) -> Any:
    """A value with variables in place of ${NAME}. Raises KeyError."""
    if isinstance(value, dict):
        return {name: _filled(one, environment) for name, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, environment) for one in value]
    if isinstance(value, date):  # a datetime, too
        return value.isoformat()
    if isinstance(value, str):
        fill: Callable[[re.Match[str]], str] = lambda found: environment[found[1]]  # noqa: E731
        return VARIABLE.sub(fill, value)
    return value
