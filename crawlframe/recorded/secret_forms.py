"""Forms: how a secret may be written in what is sent and received."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

_PERCENT = re.compile(r"%[0-9A-F]{2}")
# What encoders of JSON and JavaScript write as \uXXXX: of .NET, Django, Go and Gson.
_ESCAPED = (
    (re.compile(r"[\"&'+<>`\\]"), "04X"),
    (re.compile(r"[\"&'<>=;`\\-]"), "04X"),
    (re.compile(r"[&<>]"), "04x"),
    (re.compile(r"[&'<>=]"), "04x"),
)


def forms_of(secret: str) -> Iterable[str]:
    """The text as it is, and as URLs, HTML, JSON and scripts have it."""
    as_json = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    as_json += [one.replace("/", "\\/") for one in as_json]  # as PHP does
    quoted = [quote_plus(secret), quote(secret), quote(secret, safe="")]
    quoted += [_PERCENT.sub(lambda found: found[0].lower(), one) for one in quoted]
    escaped = [
        marks.sub(lambda found, how=how: f"\\u{ord(found[0]):{how}}", secret)  # type: ignore[misc]
        for marks, how in _ESCAPED
    ]
    marked = html.escape(secret)
    other = marked.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    return dict.fromkeys((secret, *quoted, *as_json, *escaped, marked, other))
