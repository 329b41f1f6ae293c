"""``reasons``: the table of the reasons with which requests end, in the words of the admin."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SOURCE = Path(__file__).resolve().parents[2] / "crawlservice/tasks/progress/outcomes.py"


class Reasons(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        lines = ["| reason | meaning |", "| --- | --- |"]
        lines += [f"| `{reason}` | {phrase} |" for reason, phrase in reasons()]
        parent = nodes.section()
        self.state.nested_parse(StringList(lines), self.content_offset, parent)
        return parent.children


def reasons() -> Iterator[tuple[str, str]]:
    """Reasons with their phrases, from the source: importing it would need Django."""
    for node in ast.walk(ast.parse(SOURCE.read_text())):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "PHRASES":
            assert isinstance(node.value, ast.Dict)
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                assert key is not None
                assert isinstance(value, ast.Call)
                yield ast.literal_eval(key), ast.literal_eval(value.args[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("reasons", Reasons)
    return {"parallel_read_safe": True}
