"""JMESPath: an expression that selects from JSON (https://jmespath.org)."""

from __future__ import annotations

from typing import Any

from crawlframe.errors import SpiderError
from crawlframe.response import Response


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
        self._expression = expression

    def find(self, data: Any) -> Any:
        """What it selects, None if there is nothing. Raises SpiderError if the data do not fit."""
        from jmespath.exceptions import JMESPathError

        try:
            return self._compiled.search(data)
        except JMESPathError as error:
            raise SpiderError(f"{self._expression!r}: {error}") from None

    def number(self, response: Response, data: Any) -> int:
        """The number that it selects. Raises SpiderError if it selects none."""
        value = self.find(data)
        try:
            return int(value)
        except (TypeError, ValueError):
            raise SpiderError(f"{response.url}: {self} is {value!r}, and no number") from None

    def __str__(self) -> str:
        return repr(self._expression)
