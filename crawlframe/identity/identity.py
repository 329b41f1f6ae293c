"""Identity: what a process adds to each request that leaves it, to say who we are: a signature, and
the credentials of the host. Innermost, so that no middleware, row or log sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from multidict import CIMultiDict

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.urls import host_of, target_of
from crawlframe.identity.credentials import DIGEST, Credential, Credentials
from crawlframe.identity.digest import Challenge
from crawlframe.identity.keys import SigningKey
from crawlframe.identity.signing import Headers, Signer, authority_of

MAX_CHALLENGES = 1000  # hosts whose latest digest challenge is remembered


class Papers(NamedTuple):
    """What the database has of our identity: keys that sign now or later, and credentials."""

    keys: tuple[SigningKey, ...] = ()
    credentials: tuple[Credential, ...] = ()


class Identity:
    """``agent`` is the URL of the directory of our keys; "": nothing is signed. ``clock`` returns
    seconds since the epoch."""

    def __init__(self, agent: str = "", clock: Callable[[], float] = time.time) -> None:
        self._agent = agent
        self._clock = clock
        self._papers: Papers | None = None
        self._signer: Signer | None = None
        self._credentials: Credentials | None = None
        self._challenges: BoundedDict[str, Challenge] = BoundedDict(MAX_CHALLENGES)

    @property
    def is_loaded(self) -> bool:
        return self._papers is not None

    @property
    def is_plain(self) -> bool:
        """Whether nothing is to be added to any request."""
        return self._signer is None and self._credentials is None

    def load(self, papers: Papers) -> None:
        """Uses these from the next transfer on."""
        if papers == self._papers:
            return
        self._papers = papers
        self._signer = Signer(self._agent, papers.keys) if self._agent else None
        self._credentials = Credentials(papers.credentials) if papers.credentials else None
        self._challenges.clear()

    def headers_for(self, url: str, method: str, headers: Sequence[tuple[str, str]]) -> Headers:
        """What to add to ``headers`` of a transfer. Headers that the spider sets stay."""
        added: Headers = []
        if self._credentials is not None:
            login = self._credentials.find(url)
            if login is not None and not _has_authorization(headers):
                value = self._authorization(login, url, method)
                added += [("Authorization", value)] * bool(value)
        if self._signer is not None:
            added += self._signer.sign(authority_of(url, headers), self._clock())
        return added

    def is_challenged(self, url: str, answer: CIMultiDict[str], sent: str) -> bool:
        """Whether a response 401 asks for a digest that the same request can answer, sent again.
        ``sent``: the Authorization header it had."""
        login = self._credentials.find(url) if self._credentials is not None else None
        if login is None or login.scheme != DIGEST:
            return False
        challenge = Challenge.best(answer.getall("WWW-Authenticate", []))
        if challenge is None or f'nonce="{challenge.nonce}"' in sent:
            return False
        self._challenges[host_of(url)] = challenge
        return True

    def _authorization(self, login: Credential, url: str, method: str) -> str:
        if login.scheme != DIGEST:
            return login.authorization()
        challenge = self._challenges.get(host_of(url))
        if challenge is None:
            return ""  # the first answer has it
        return challenge.answer(method, target_of(url), login.user, login.secret.reveal())


def _has_authorization(headers: Sequence[tuple[str, str]]) -> bool:
    return any(name.lower() == "authorization" for name, _ in headers)
