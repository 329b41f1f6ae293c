"""``command-options``: a section for each command of manage.py, with its help and its options,
taken from the commands themselves, so that the page cannot be older than they are."""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

# Every command of Django has these.
COMMON = {
    "--version", "-v", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color",
    "--skip-checks", "-h",
}  # fmt: skip


class CommandOptions(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        return [section(name, parser) for name, parser in parsers()]


def parsers() -> list[tuple[str, argparse.ArgumentParser]]:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlservice.settings")
    os.environ.setdefault("CRAWLFRAME_VAR_DIR", tempfile.mkdtemp(prefix="cf-docs-"))
    os.environ["COLUMNS"] = "80"
    import django
    from django.core.management import get_commands, load_command_class

    django.setup()
    ours = sorted(name for name, app in get_commands().items() if app == "crawlservice")
    return [
        (name, load_command_class("crawlservice", name).create_parser("manage.py", name))
        for name in ours
    ]


def section(name: str, parser: argparse.ArgumentParser) -> nodes.section:
    found = nodes.section(ids=[f"command-{name}"], names=[f"command-{name}"])
    found += nodes.title("", "", nodes.literal("", name))
    found += nodes.paragraph("", " ".join((parser.description or "").split()))
    if options := listed(parser):
        found += options
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, child in action.choices.items():
                found += nodes.paragraph("", "", nodes.literal("", f"{name} {word}"))
                if options := listed(child):
                    found += options
    return found


def listed(parser: argparse.ArgumentParser) -> nodes.definition_list | None:
    terms = nodes.definition_list()
    for action in parser._actions:
        names = action.option_strings
        hidden = action.help == argparse.SUPPRESS or COMMON.intersection(names)
        if hidden or isinstance(action, argparse._SubParsersAction):
            continue
        item = nodes.definition_list_item()
        item += nodes.term("", "", nodes.literal("", usage(action)))
        item += nodes.definition("", nodes.paragraph("", explained(parser, action)))
        terms += item
    return terms if len(terms) else None


def usage(action: argparse.Action) -> str:
    metavar = action.metavar or action.dest.upper()
    name = metavar if isinstance(metavar, str) else " ".join(metavar)
    if action.choices:
        name = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return f"[{name} ...]" if action.nargs in ("*", "+") else name
    value = "" if action.nargs == 0 else f" {name}"
    return ", ".join(action.option_strings) + value


def explained(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    params: dict[str, Any] = {**vars(action), "prog": parser.prog}
    return " ".join(((action.help or "") % params).split()) if action.help else "—"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("command-options", CommandOptions)
    return {"parallel_read_safe": True}
