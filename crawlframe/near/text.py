"""The text of a page that is compared: its words, without markup, scripts and styles, and without
what its markup says is not its own: navigation, header, footer and asides."""

from __future__ import annotations

import html
import re

# What is left out, and what ends it.
_PARTS = (b"nav", b"header", b"footer", b"aside")
_NAMES = (b"script", b"style", b"template", b"noscript", b"head", b"svg", *_PARTS)
_OPTIONAL = {b"head", *_PARTS}  # without an end tag, what follows is shown
_HIDDEN = re.compile(rb"<(?:!--|(%s)(?=[\s/>]))" % b"|".join(_NAMES), re.IGNORECASE)
_ENDS = {name: re.compile(rb"</%s(?=[\s/>])[^>]*" % name, re.IGNORECASE) for name in _NAMES}
_COMMENT_END = re.compile(rb"--!?>")
_TAG = re.compile(rb"<[/!?a-zA-Z][^<>]*>?")
# Every byte that is in no word; letters of other scripts are bytes from 0x80 on.
_BLANKS = bytes(byte for byte in range(0x80) if not chr(byte).isalnum())
_TO_WORDS = bytes.maketrans(_BLANKS, b" " * len(_BLANKS))
# Scripts without spaces between words: each character is one.
_IDEOGRAPHS = re.compile("([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff])")
# Signs of Latin-1, general punctuation, those of East Asia and their wide forms, in UTF-8.
_SIGNS = re.compile(
    rb"\xc2[\x80-\xbf]|\xe2[\x80\x81].|\xe3\x80[\x80-\x9f]|\xef\xbc[\x81-\x8f\x9a-\xa0]", re.DOTALL
)


def visible_text(page: bytes) -> str:
    """Return the text of an HTML page in UTF-8, in linear time, without a parser: what is between
    its tags. A page that is not closed properly may lose some of it."""
    text = _TAG.sub(b" ", _without_hidden(page)).decode("utf-8", "replace")
    return html.unescape(text) if "&" in text else text


def words_of(text: str) -> list[bytes]:
    """Return the words of a text in lower case, in UTF-8."""
    text = text.lower()
    if text.isascii():
        return text.encode().translate(_TO_WORDS).split()
    if _IDEOGRAPHS.search(text):
        text = _IDEOGRAPHS.sub(r" \1 ", text)
    return _SIGNS.sub(b" ", text.encode("utf-8", "replace")).translate(_TO_WORDS).split()


def _without_hidden(page: bytes) -> bytes:
    parts, last, endless = [], 0, set()
    found = _HIDDEN.search(page)
    while found is not None:
        parts.append(page[last : found.start()])
        name = (found[1] or b"").lower()
        end = None
        if name not in endless:
            end = (_ENDS[name] if name else _COMMENT_END).search(page, found.end())
        if end is not None:
            last = end.end()
        elif name in _OPTIONAL:
            last = found.end()
            endless.add(name)  # each search reads the rest of the page
        else:
            last = len(page)
        found = _HIDDEN.search(page, last)
    return b" ".join([*parts, page[last:]])
