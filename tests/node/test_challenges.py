"""Challenges in a worker: the answer is another claim where the host has a delay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from multidict import CIMultiDict

from crawlframe import CallNext, Request, Response, Spider
from crawlframe.base.secret import Secret
from crawlframe.conf import Settings
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.journey import Answer, Journey
from crawlframe.identity.credentials import Credential
from crawlframe.identity.identity import Identity, Papers
from crawlframe.node.worker.fetch.fetching import MAX_CHALLENGES
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.reasons import CHALLENGED
from tests.node.runner import HERE, Tasks

HOST = "a.example"
URL = f"https://{HOST}/"


class Protected(Downloader):
    """A host that asks for a digest."""

    def __init__(self) -> None:
        identity = Identity()
        identity.load(Papers(credentials=(Credential(HOST, "digest", "ann", Secret("x"), False),)))
        super().__init__(Settings(), identity)
        self.sent: list[bool] = []  # whether with credentials

    async def _transfer(self, journey: Journey) -> Answer:
        known = "Authorization" in dict(journey.headers_to_send())
        self.sent.append(known)
        journey.send_time.sent()
        challenge = {} if known else {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth"'}
        return Answer(200 if known else 401, CIMultiDict(challenge), b"body")


class Member(Spider):
    name = "member"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"status": response.status}


class Cautious:
    async def fetch(self, request: Request, call_next: CallNext) -> Response:
        try:
            return await call_next(request)
        except Exception as error:
            raise AssertionError("a challenge is no error") from error


class Guarded(Member):
    name = "guarded"
    middlewares = (Cautious,)


def run(web: Protected, *refusals: int, due: float | None, spider: type[Spider]) -> list[Outcome]:
    """The outcomes of the claims of one request in a worker, refused so often before."""
    over: list[str] = []
    tasks = Tasks(
        spider, web, settings=HERE, fetched=lambda claimed, signal: over.append(claimed.host)
    )

    async def claims() -> list[Outcome]:
        return [await tasks.run(Request(URL), refusals=before, due=due) for before in refusals]

    outcomes = asyncio.run(claims())
    assert over == [HOST] * len(outcomes)  # each claim frees its slot
    return outcomes


@pytest.mark.parametrize("spider", [Member, Guarded])
def test_the_answer_waits_for_the_delay_of_its_host(spider: type[Spider]) -> None:
    web = Protected()
    first, second = run(web, 0, 1, due=0.0, spider=spider)
    assert (first.verdict, first.reason, first.results.items) == (Verdict.RELEASE, CHALLENGED, [])
    assert (second.verdict, second.results.items) == (Verdict.DONE, [b'{"status":200}'])
    assert web.sent == [False, True]


def test_it_is_sent_at_once_to_a_host_without_a_delay() -> None:
    web = Protected()
    (outcome,) = run(web, 0, due=None, spider=Member)
    assert outcome.results.items == [b'{"status":200}']
    assert web.sent == [False, True]


def test_a_request_that_many_workers_were_challenged_for_is_answered_at_once() -> None:
    web = Protected()
    (outcome,) = run(web, MAX_CHALLENGES, due=0.0, spider=Member)
    assert outcome.results.items == [b'{"status":200}']
    assert web.sent == [False, True]
