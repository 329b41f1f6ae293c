"""``api-operations``: the operations of the HTTP API with the tags that are given, as the schema
describes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PREFIX = "/api/v1"


class ApiOperations(SphinxDirective):
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        tags = {tag.strip() for tag in self.arguments[0].split(",")}
        lines = ["| operation | effect |", "|---|---|"]
        lines += [row(each) for each in operations() if tags.intersection(each["tags"])]
        if len(lines) == 2:
            raise self.error(f"no operation of the API has a tag in {self.arguments[0]!r}")
        parent = nodes.section()
        self.state.nested_parse(StringList(lines), self.content_offset, parent)
        return parent.children


def operations() -> Iterator[dict[str, Any]]:
    """Every operation of the schema, with ``method`` and ``path``."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlservice.settings")
    os.environ.setdefault("CRAWLFRAME_VAR_DIR", tempfile.mkdtemp(prefix="cf-docs-"))
    import django

    django.setup()
    from crawlservice.api.app import api

    for path, methods in api.get_openapi_schema()["paths"].items():
        for method, operation in methods.items():
            yield {**operation, "method": method.upper(), "path": path.removeprefix(PREFIX)}


def row(operation: dict[str, Any]) -> str:
    """A line of a table in Markdown, as the pages that use the directive are."""
    text = " ".join(operation.get("description", "").split()).replace("|", "\\|")
    named = [f"`{one['name']}`" for one in operation.get("parameters", []) if one["in"] != "path"]
    parameters = f" Parameters: {', '.join(named)}." if named else ""
    return f"| `{operation['method']} {operation['path']}` | {text}{parameters} |"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("api-operations", ApiOperations)
    return {"parallel_read_safe": True}
