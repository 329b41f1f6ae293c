"""The address of a webhook: user, password and query may be secret, so they are stored apart from
the shown part."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from crawlframe.base.urls import normalise
from crawlframe.errors import BadRequest

MASK = "***"  # replaces user and password, and the query, in the address that is shown


class Address(NamedTuple):
    """``url``: without login and query. ``login`` is ``user:password``, percent-encoded as in a
    URL. The latter two are "" if the address has none."""

    url: str
    login: str
    query: str

    @property
    def shown(self) -> str:
        """The address with masks for its login and its query."""
        parts = urlsplit(self.url)
        netloc = f"{MASK}@{parts.netloc}" if self.login else parts.netloc
        return parts._replace(netloc=netloc, query=MASK if self.query else "").geturl()

    @property
    def secret(self) -> str:
        """The part that is stored encrypted. A login cannot have a question mark, so the first one
        starts the query."""
        return f"{self.login}?{self.query}" if self.query else self.login

    @property
    def sent_query(self) -> str:
        """The query as it is sent, and as errors show it."""
        try:
            return urlsplit(normalise(self.destination)).query
        except BadRequest:  # it is not sent
            return self.query

    @property
    def destination(self) -> str:
        """The URL that is requested. The login is sent as a header."""
        return urlsplit(self.url)._replace(query=self.query).geturl()


def parsed(url: str) -> Address:
    parts = urlsplit(url)
    login, _, place = parts.netloc.rpartition("@")
    return Address(parts._replace(netloc=place, query="").geturl(), login, parts.query)


def restored(shown: str, secret: str) -> Address:
    """``shown`` with the secrets in place of its masks. An address that was stored before queries
    were concealed has its own."""
    given = parsed(shown)
    login, _, query = secret.partition("?")
    return Address(
        given.url,
        login if given.login == MASK else given.login,
        query if given.query == MASK else given.query,
    )
