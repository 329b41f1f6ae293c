"""How Sphinx builds this site: ``make docs``. Warnings are errors there, so a link to a page or
heading that does not exist fails the build."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_ext")]

from crawlframe import __version__  # noqa: E402

project = "Crawlframe"
copyright = "the Crawlframe authors"
release = version = __version__

extensions = [
    "myst_parser", "sphinx.ext.autodoc", "api_operations", "command_options", "reasons", "rooms",
]  # fmt: skip
exclude_patterns = ["_ext", "_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
highlight_language = "text"

html_theme = "furo"
html_title = f"Crawlframe {release}"
html_copy_source = False
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"

# Sites that refuse a program, or are examples.
linkcheck_ignore = [r"https?://(localhost|127\.0\.0\.1)", r"https?://[\w.-]*\bexample\b"]
linkcheck_timeout = 20
