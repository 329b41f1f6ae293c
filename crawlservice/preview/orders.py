"""Orders of previews: a user names a revision, and a node with a git checkout runs it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import connections
from django.utils import timezone
from django.utils.translation import gettext as _

from crawlframe.errors import FieldError
from crawlframe.frontier.cluster.trials import ORDER_MS, PREVIEW, TrialOrder
from crawlservice import project
from crawlservice.connections.frontier import frontier
from crawlservice.models import PreviewReport
from crawlservice.preview.reports import prune
from crawlservice.preview.result import LIVE

State = PreviewReport.State
TAKEN_WITHIN = timedelta(milliseconds=ORDER_MS)
SILENCE = timedelta(minutes=3)  # of a preview that runs, after which it has died
PAGES, MOST_PAGES = 200, 1000  # of a spider
PATTERNS = 20  # of names of spiders
TEXT = 200  # characters of a revision, and of a pattern


def order(
    revision: str,
    *,
    against: str = LIVE,
    spiders: Sequence[str] = (),
    pages: int = PAGES,
    node: str = "",
    by: str = "",
) -> PreviewReport:
    """Orders a preview, which a node takes with its next beat. ``node``: only this one; "" for any
    one with a git checkout. ``by``: name of the user. Raises FieldError, FrontierError and
    redis.RedisError."""
    for name, value in (("revision", revision), ("against", against)):
        if not value or value.startswith("-"):
            raise FieldError(name, _("Name a branch, a tag or a commit."))
    if len(spiders) > PATTERNS:
        raise FieldError("spiders", _("At most {n} patterns of names.").format(n=PATTERNS))
    able = nodes()
    if node and node not in able:
        raise FieldError("node", _("No running node {name} has a git checkout.").format(name=node))
    if not able:
        raise FieldError("node", _("No running node has a git checkout."))
    given = {"revision": revision, "against": against, "spiders": [*spiders], "pages": pages}
    row = PreviewReport.objects.create(
        version=revision, against=against, node=node, user=by, given=given, state=State.WAITING
    )
    try:
        frontier().trials.ask(uuid4().hex, TrialOrder("", PREVIEW, row.pk, node))
    except BaseException:
        row.delete()
        raise
    prune()
    return row


def given_of(row: PreviewReport) -> dict[str, Any]:
    """The order: ``revision``, ``against``, ``spiders`` and ``pages``."""
    return dict(row.given or {})


def nodes() -> list[str]:
    """The names of the nodes that can run a preview. Raises redis.RedisError and FrontierError."""
    living = [one for one in frontier().leases.nodes() if one.lease_left > 0 and not one.leaving]
    return sorted({one.node for one in living if one.code.version.partition("+")[0]})


def revisions() -> list[str]:
    """Revisions that some node knows: the versions that they run and try, and what they follow.
    Raises as ``nodes``."""
    found: dict[str, None] = {}
    for one in frontier().leases.nodes():
        code = one.code
        for name in (code.follows, code.candidate, code.pulled, code.version):
            found[name.partition("+")[0]] = None
    return [*filter(None, found)]


def settle(row: PreviewReport) -> None:
    """Gives a preview that nobody runs any more its end, in this object only."""
    now = timezone.now()
    if row.state == State.WAITING and now - row.created_at > TAKEN_WITHIN:
        row.state, row.problem = State.FAILED, _("No running node took it.")
    elif row.state == State.RUNNING and row.changed_at and now - row.changed_at > SILENCE:
        row.state, row.problem = State.FAILED, _("Its node was stopped or died.")


def carry_out(number: int, node: str) -> None:
    """Runs an ordered preview on this node, in a process that has loaded nothing."""
    rows = PreviewReport.objects.filter(pk=number)
    if not rows.update(state=State.RUNNING, node=node, changed_at=timezone.now()):
        return  # newer ones have taken its place
    connections.close_all()
    words = [*project.manage_command(), "preview", "--order", str(number)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    last = done.stderr.strip().rpartition("\n")[2]
    rows.filter(state=State.RUNNING).update(
        state=State.FAILED,
        problem=f"it ended with exit code {done.returncode}{last and f': {last}'}"[:TEXT],
        changed_at=timezone.now(),
    )
    connections.close_all()
