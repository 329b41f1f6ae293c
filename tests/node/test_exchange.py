"""The headers of a request that ended in error, as they are recorded: without secrets."""

from __future__ import annotations

from typing import Any

from crawlframe.base.secret import MASK, Secret
from crawlframe.errors import ConnectionLost, FetchError
from crawlframe.node.worker.verdict.http_log import BRIEF, exchange_of
from crawlframe.request.request import Request
from crawlframe.response.response import Response

URL = "http://a.example/"
Headers = list[tuple[str, str]]


def answered(sent: Headers | None, received: Headers, url: str = URL) -> Response:
    response = Response(URL, 403, received, b"", Request(URL))
    response.sent = None if sent is None else ("GET", url, sent)
    return response


def recorded(sent: Headers, received: Headers, arguments: Any = None, url: str = URL) -> Any:
    found = exchange_of(answered(sent, received, url), arguments or {})
    assert found is not None
    return found


def test_what_was_sent_and_received_is_recorded() -> None:
    assert recorded([("Accept", "text/html")], [("Server", "nginx"), ("Server", "again")]) == {
        "method": "GET",
        "url": URL,
        "sent": [["Accept", "text/html"]],
        "status": 403,
        "received": [["Server", "nginx"], ["Server", "again"]],
    }


def test_logins_and_cookies_are_masked() -> None:
    sent = [
        ("Authorization", "Basic dXNlcjpwYXNz"),
        ("Proxy-Authorization", "opaque"),
        ("Cookie", "sid=4711; lang=de"),
        ("X-Api-Key", "k-4711"),
        ("X-CSRF-Token", "t-4711"),
    ]
    received = [
        ("Set-Cookie", "sid=4712; Path=/; HttpOnly"),
        ("set-cookie", "strange"),
        ("X-Echo", "you sent Basic dXNlcjpwYXNz and k-4711"),
    ]
    found = recorded(sent, received)
    assert found["sent"] == [
        ["Authorization", f"Basic {MASK}"],
        ["Proxy-Authorization", MASK],
        ["Cookie", f"sid={MASK}; lang={MASK}"],
        ["X-Api-Key", MASK],
        ["X-CSRF-Token", MASK],
    ]
    assert found["received"] == [
        ["Set-Cookie", f"sid={MASK}; Path=/; HttpOnly"],
        ["set-cookie", MASK],
        ["X-Echo", f"you sent Basic {MASK} and {MASK}"],
    ]


def test_secret_arguments_are_masked_wherever_they_are() -> None:
    arguments = {"login": [{"word": Secret("open sesame")}], "city": "Ulm"}
    url = f"{URL}?word=open+sesame&city=Ulm"
    found = recorded([("X-Word", "open sesame")], [("Location", url)], arguments, url)
    assert found["url"] == f"{URL}?word={MASK}&city=Ulm"
    assert found["sent"] == [["X-Word", MASK]]
    assert found["received"] == [["Location", found["url"]]]


def test_it_is_bounded_and_fit_for_a_database() -> None:
    many: Headers = [(f"X-{n}", "v") for n in range(2 * BRIEF.headers)]
    found = recorded(many, [("X-Long", "x" * 2 * BRIEF.value), ("X-Odd", "a\0b\udcff")])
    assert len(found["sent"]) == BRIEF.headers + 1
    assert found["sent"][-1] == ["…", ""]
    assert len(found["received"][0][1]) == BRIEF.value
    assert found["received"][1][1] == "ab?"
    assert len(recorded([], [(f"X-{n}", "x" * BRIEF.value) for n in range(50)])["received"]) < 20


def test_a_fetch_that_brought_no_response_has_what_was_sent() -> None:
    error = ConnectionLost("gone")
    error.sent = ("POST", URL, [("Accept", "*/*")])
    assert exchange_of(error, {}) == {"method": "POST", "url": URL, "sent": [["Accept", "*/*"]]}
    assert exchange_of(FetchError("nothing was sent"), {}) is None


def test_a_response_that_was_not_fetched_has_what_was_received() -> None:
    found = exchange_of(answered(None, [("Server", "cache")]), {})
    assert found == {"status": 403, "received": [["Server", "cache"]]}
