"""``rooms``: the table of the folders of both packages, from the docstring of each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

CHECKOUT = Path(__file__).resolve().parents[2]


class Rooms(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        lines = ["| folder | purpose |", "| --- | --- |"]
        lines += [f"| `{room}/` | {sentence} |" for room, sentence in rooms()]
        parent = nodes.section()
        self.state.nested_parse(StringList(lines), self.content_offset, parent)
        return parent.children


def rooms(root: Path = CHECKOUT) -> Iterator[tuple[str, str]]:
    """Folders with the first paragraph of their docstrings ("" if there is none)."""
    for package in ("crawlframe", "crawlservice"):
        for path in sorted((root / package).rglob("__init__.py")):
            text = ast.get_docstring(ast.parse(path.read_text())) or ""
            yield str(path.parent.relative_to(root)), " ".join(text.partition("\n\n")[0].split())


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("rooms", Rooms)
    return {"parallel_read_safe": True}
