"""Masking: recipes as they are shown to those who may not change them. The headers of a recipe may
carry tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from crawlframe.base.secret import MASK


def masked_headers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a spider, with a mask for the value of each header."""
    headers = settings.get("headers")
    if not headers:
        return dict(settings)
    names = headers if isinstance(headers, Mapping) else ()
    return {**settings, "headers": dict.fromkeys(names, MASK)}


def masked_text(text: str) -> str:
    """The text of a recipe, with such masks; "" if it is no JSON object."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(data, dict):
        return ""
    if not isinstance(data.get("settings"), dict) or not data["settings"].get("headers"):
        return text
    data["settings"] = masked_headers(data["settings"])
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"
