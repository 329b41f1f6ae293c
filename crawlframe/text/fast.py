"""Fast: main text and language by resiliparse (the extra ``text``)."""

from __future__ import annotations

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree
from resiliparse.parse.lang import detect_fast

MAX_TEXT = 10_000  # characters from which a language is detected


def main_text(html: bytes) -> str:
    """The main text of a page in UTF-8."""
    tree = HTMLTree.parse_from_bytes(html, "utf-8")
    text: str = extract_plain_text(tree, main_content=True)
    return text


def language_of(text: str) -> str | None:
    """The ISO 639-1 code of its language, or None if that is not clear."""
    code: str = detect_fast(text[:MAX_TEXT])[0]
    return None if code == "unknown" else code
