"""The text of a page that is compared: its words, without markup, scripts and styles."""

from __future__ import annotations

import html
import re

# What is not shown, and what ends it. A search for an end that is missing is made once.
_HIDDEN = re.compile(
    rb"<(?:!--|(script|style|template|noscript|head|svg)(?=[\s/>]))", re.IGNORECASE
)
_ENDS = {
    name: re.compile(rb"</%s(?=[\s/>])[^>]*" % name, re.IGNORECASE)
    for name in (b"script", b"style", b"template", b"noscript", b"head", b"svg")
}
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
    parts, last, open_head = [], 0, False
    found = _HIDDEN.search(page)
    while found is not None:
        parts.append(page[last : found.start()])
        name = (found[1] or b"").lower()
        end = None
        if name != b"head" or not open_head:
            end = (_ENDS[name] if name else _COMMENT_END).search(page, found.end())
        if end is not None:
            last = end.end()
        elif name == b"head":  # its end tag may be left out
            last, open_head = found.end(), True
        else:  # browsers show nothing of a script that is not closed
            last = len(page)
        found = _HIDDEN.search(page, last)
    return b" ".join([*parts, page[last:]])
