"""Causes of errors: errors with the same cause are one group, over all tasks.

A cause is the spider, the reason, and for exceptions of authors' code their type, file and
function: without the line, which changes with every edit."""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import PurePath
from typing import NamedTuple

from django.db import connection

from crawlframe.items.encode import clean_text
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.participant import Participant
from crawlframe.run.reasons import NO_ERRORS
from crawlservice.models import VERSION, ErrorGroup, Task
from crawlservice.models.error import EXCEPTION, PLACE, REASON
from crawlservice.tasks.results.error_groups import FRAME, own_frame

# The last line of a traceback that is not indented and starts with a name: its type.
RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
GROUP = ErrorGroup._meta.db_table
ADD = (
    f"INSERT INTO {GROUP} (id, spider, reason, exception, place, first_version)"
    " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING"
)


class Cause(NamedTuple):
    """``exception`` and ``place`` are empty for an error that no code of authors raised."""

    spider: str
    reason: str
    exception: str = ""
    place: str = ""

    @property
    def number(self) -> int:
        """The id of its group: 53 bits of a hash, which every JSON parser reads exactly."""
        text = "\0".join(self)
        digest = blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
        return int.from_bytes(digest) >> 11


class ErrorGroups(Participant):
    """Gives errors the groups of their causes, and makes the groups that are new."""

    takes = ("reason",)

    def concerned(self, outcomes: list[Outcome]) -> list[Outcome]:
        return [o for o in outcomes if o.verdict is Verdict.ERROR and o.reason not in NO_ERRORS]

    def prepare(self, outcomes: list[Outcome]) -> None:
        tasks = Task.objects.filter(pk__in={outcome.task for outcome in outcomes})
        spiders = dict(tasks.values_list("pk", "spider"))
        new: dict[int, tuple[int, str, str, str, str, str]] = {}
        for outcome in outcomes:
            if (spider := spiders.get(outcome.task)) is None:
                continue
            cause = cause_of(spider, outcome.reason, outcome.detail)
            outcome.error_group = cause.number
            new[cause.number] = (cause.number, *cause, clean_text(outcome.version)[:VERSION])
        with connection.cursor() as cursor:
            cursor.executemany(ADD, [new[number] for number in sorted(new)])


def cause_of(spider: str, reason: str, detail: str) -> Cause:
    """The cause of an error with this reason and detail."""
    reason, detail = clean_text(reason)[:REASON], clean_text(detail)
    if (frame := own_frame(detail)) is None:
        return Cause(spider, reason)
    place = f"{'/'.join(PurePath(frame['file']).parts[-2:])}, {frame['function']}"
    return Cause(spider, reason, _type(detail)[:EXCEPTION], place[:PLACE])


def _type(detail: str) -> str:
    """The name of the exception, without its module; "" if the traceback was cut."""
    end = [found.end() for found in FRAME.finditer(detail)][-1]
    names = RAISED.search(detail, end)
    return names[1].rpartition(".")[2] if names else ""
