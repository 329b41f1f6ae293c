"""GraphQLSpider: walks through a connection of a GraphQL API, and calls a method for each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from crawlframe.errors import FetchError, GraphQLFailed, NotJson, SpiderError
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.middleware import CallNext
from crawlframe.spiders.json_api import JSONSpider
from crawlframe.spiders.next_page import Connection

# Codes of errors after which another attempt may help.
PASSING = frozenset(
    {"THROTTLED", "RATE_LIMITED", "RATELIMITED", "TIMEOUT", "INTERNAL_SERVER_ERROR",
     "SERVICE_UNAVAILABLE"}
)  # fmt: skip
MAX_ERRORS = 3  # errors in a message


class GraphQLSpider(JSONSpider):
    """Sends ``query`` with the variables of ``graphql_variables`` to each of ``start_urls``, and
    calls ``parse_item`` for each node. ``connection`` is the JMESPath of the connection (an object
    with ``nodes`` or ``edges``, and ``pageInfo``), such as ``data.orders``; its next page is asked
    for with the variable ``cursor``. Without a connection, or for other items, set ``items_path``.

    A response with ``errors`` is an error of the request, also with the status 200; unless
    ``partial`` is True and there is ``data`` besides."""

    query: ClassVar[str] = ""
    variables: ClassVar[Mapping[str, Any]] = {}
    connection: ClassVar[str] = ""
    cursor: ClassVar[str] = "after"
    partial: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        if (path := cls.connection) and cls.__dict__.keys() & {"connection", "cursor"}:
            if "items_path" not in cls.__dict__:
                cls.items_path = f"not_null(({path}).nodes, ({path}).edges[].node)"
            if "next_page" not in cls.__dict__:
                parameter = f"variables.{cls.cursor}"
                cls.next_page = Connection(f"({path}).pageInfo", parameter, where="json")
        super().__init_subclass__(**options)
        if cls.name and not (cls.query and isinstance(cls.query, str)):
            raise SpiderError(f"spider {cls.name!r}: query must be the text of a GraphQL query")

    def start(self) -> Iterator[Request]:
        """Yield the first request for each of ``start_urls``."""
        for url in self.start_urls:
            yield self.graphql(url)

    def graphql(self, url: str, **options: Any) -> Request:
        """Return the request that sends the query to ``url``. ``options`` are passed to Request."""
        body = {"query": self.query, "variables": dict(self.graphql_variables())}
        return Request(url, json=body, headers=dict(self.request_headers()), **options)

    def graphql_variables(self) -> Mapping[str, Any]:
        """Return the variables of the query, for the first page."""
        return self.variables

    def _layers(self) -> tuple[Any, ...]:
        return (GraphQLErrors(partial=self.partial), *super()._layers())


class GraphQLErrors:
    """The layer around downloads that sees errors in responses that seem to be good."""

    def __init__(self, *, partial: bool) -> None:
        self._partial = partial

    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        """As in Middleware. Raises GraphQLFailed."""
        response = await call_next(request)
        if response.ok and (error := self._error_in(response)):
            error.response = response
            raise error
        return response

    def _error_in(self, response: Response) -> FetchError | None:
        try:
            body = response.json()
        except NotJson:
            return None  # the callback says so
        errors = body.get("errors") if isinstance(body, dict) else None
        if not errors or (self._partial and body.get("data")):
            return None
        errors = errors if isinstance(errors, list) else [errors]
        told = "; ".join(_message(error) for error in errors[:MAX_ERRORS])
        more = f" (and {len(errors) - MAX_ERRORS} more)" if len(errors) > MAX_ERRORS else ""
        passing = any(_code(error) in PASSING for error in errors)
        return GraphQLFailed(f"{response.url}: {told}{more}", passing=passing)


def _message(error: Any) -> str:
    text = error.get("message") if isinstance(error, dict) else error
    return str(text)[:500]


def _code(error: Any) -> str:
    extensions = error.get("extensions") if isinstance(error, dict) else None
    code = extensions.get("code") if isinstance(extensions, dict) else None
    return str(code or (error.get("type") if isinstance(error, dict) else "")).upper()
