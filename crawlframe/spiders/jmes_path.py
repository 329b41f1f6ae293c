"""JMESPath: an expression that selects from JSON (https://jmespath.org)."""

from __future__ import annotations

from typing import Any

from crawlframe.errors import SpiderError
from crawlframe.response.response import Response


class JMESPath:
    """Raises SpiderError if the expression is wrong."""

    def __init__(self, expression: str) -> None:
        from jmespath import compile as compile_path
        from jmespath.exceptions import JMESPathError

        try:
            self._compiled = compile_path(expression)
        except (JMESPathError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise SpiderError(f"{expression!r} is not a JMESPath: {reason}") from None
        if _negates_a_parent(self._compiled.parsed):
            raise SpiderError(
                f"{expression!r}: ! binds more than a point, so this selects from true or false; "
                "put parentheses around what is negated: !(a.b)"
            )
        self._expression = expression

    def find(self, data: Any) -> Any:
        """The selected value, None if there is none. Raises SpiderError if data do not fit."""
        from jmespath.exceptions import JMESPathError

        try:
            return self._compiled.search(data)
        except JMESPathError as error:
            raise SpiderError(f"{self._expression!r}: {error}") from None

    def number(self, response: Response, data: Any) -> int:
        """The number that it selects. Raises SpiderError if it selects none."""
        value = self.find(data)
        if (number := whole_number(value)) is None:
            raise SpiderError(f"{response.url}: {self} is {value!r:.200}, and no number")
        return number

    def is_null(self, data: Any) -> bool:
        """Whether null stands where it looks first, and not nothing."""
        *parents, last = _names(self._compiled.parsed) or [""]
        for name in parents:
            data = data.get(name) if isinstance(data, dict) else None
        return (isinstance(data, dict) and data.get(last, "") is None) or last == ""

    def __str__(self) -> str:
        return repr(self._expression)


def whole_number(value: Any) -> int | None:
    """The number that JSON or a text has, None if it is none."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    exact = isinstance(value, str) or (number == value and value is not True and value is not False)
    return number if exact else None


def _names(node: Any) -> list[str]:
    """The names of fields at the start of an expression."""
    if node["type"] == "field":
        return [node["value"]]
    parts = node["children"] if node["type"] == "subexpression" else node["children"][:1]
    return [name for part in parts for name in _names(part)]


def _negates_a_parent(node: Any) -> bool:
    parts = node["children"]
    if node["type"] in ("subexpression", "flatten") and parts[0]["type"] == "not_expression":
        return True
    return any(map(_negates_a_parent, parts))
