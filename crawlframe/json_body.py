"""The JSON of a response's body."""

from __future__ import annotations

from typing import Any

from crawlframe.errors import NotJson, TooDeep


def decoded(text: str, url: str) -> Any:
    """Returns what the text of the body at ``url`` says. Raises NotJson and TooDeep."""
    import orjson  # not needed to import a spider

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        detail = f"{error}; it starts {text[:60].strip()!r}"
        if "depth limit" in error.msg or "recursion" in error.msg.lower():
            raise TooDeep(f"{url}: {detail}") from None
        raise NotJson(f"{url}: the body is not JSON: {detail}") from None
