"""State: opens, continues and ends cases."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from crawlservice.cases.diagnosis import MAX_EXAMPLES, Diagnosis, refusing_hosts
from crawlservice.cases.evidence import BadRun
from crawlservice.models import Case, CaseSpider, Installation, Profile, Task

Cause, State = Case.Cause, Case.State
OF_REFUSAL = (Cause.CHALLENGE, Cause.BLOCKED)
REFUSED = "refused:"
SAME_TIME = timedelta(hours=6)  # within which refusals of several hosts are one cause
MAX_AGE = timedelta(days=14)  # without another bad run, after which a case is closed
KEPT_SPAN = timedelta(days=180)  # for which an ended case is kept
MAX_FIELDS, MAX_SPIDERS = 50, 500


def key_of(found: Diagnosis, run: BadRun) -> str:
    """The identity of a cause: runs with the same one have one case."""
    version = run.evidence.versions[1]
    match found.cause:
        case Cause.COMMIT:
            return f"commit:{version}"
        case Cause.HOST_DEAD | Cause.REDIRECTED:
            return f"{found.cause}:{found.host}"
        case Cause.CHALLENGE | Cause.BLOCKED:
            return f"{REFUSED}{found.host}"
        case Cause.UNKNOWN:
            return f"unknown:{run.task.spider}"
        case _:
            return f"site:{found.host}"


@transaction.atomic
def record(run: BadRun, found: Diagnosis, blame: str) -> Case | None:
    """Opens the case of a cause, or continues it with this run. Returns None if one with this cause
    has ended after it had seen the run. Raises django.db.Error."""
    key = key_of(found, run)
    known = CaseSpider.objects.filter(spider=run.task.spider, last_task__gte=run.task.pk)
    if known.filter(~CaseSpider.LIVE, case__key=key).exists():
        return None
    live = Case.objects.select_for_update().filter(Case.LIVE)
    of_spider = live.filter(Exists(known_of(run.task.spider)))
    case = live.filter(key=key).first()
    if case is None and found.cause in OF_REFUSAL:
        case = live.filter(key=REFUSED).first()  # many hosts refuse us
    if case is None and found.cause == Cause.UNKNOWN:  # this run tells less than an earlier one
        same = [one for one in of_spider if not found.fields or {*one.fields} & {*found.fields}]
        case = same[0] if same else None
    if case is None and found.cause != Cause.UNKNOWN:
        case = of_spider.filter(cause=Cause.UNKNOWN).first()  # this one tells more
    if case is None:
        case = _opened(key, run, found, blame)
    elif case.cause == Cause.UNKNOWN or _is_stronger(found, case):
        _tell(case, key, run, found, blame)
    case.fields = [*dict.fromkeys([*case.fields, *found.fields])][:MAX_FIELDS]
    case.seen_at = Now()
    case.save()
    _continue(case, run, found)
    return _together(case) if found.cause in OF_REFUSAL else case


def known_of(spider: str) -> QuerySet[CaseSpider]:
    return CaseSpider.objects.filter(case=OuterRef("pk"), spider=spider)


def _is_stronger(found: Diagnosis, case: Case) -> bool:
    """Whether the run shows that the whole site has changed, and not only a field."""
    of_field = (Cause.RENAMED, Cause.MOVED, Cause.EMPTY)
    return found.cause == Cause.REDESIGN and case.cause in of_field


def _opened(key: str, run: BadRun, found: Diagnosis, blame: str) -> Case:
    earlier = Case.objects.filter(~Case.LIVE, key=key).order_by("-pk").values_list("pk", flat=True)
    url = run.url or next((one.url for one in found.examples), "")
    case = Case(since=run.since, first_task=run.task.pk, first_url=url, earlier=earlier.first())
    _tell(case, key, run, found, blame)
    return case


def _tell(case: Case, key: str, run: BadRun, found: Diagnosis, blame: str) -> None:
    case.key, case.cause, case.blame = key, found.cause, blame
    case.host = "" if found.cause == Cause.COMMIT else found.host
    case.version, case.proof = run.evidence.versions[1], found.proof
    case.examples = [one._asdict() for one in found.examples[:MAX_EXAMPLES]]


def _continue(case: Case, run: BadRun, found: Diagnosis) -> None:
    """Adds the run to the case's spider. The pages of the last good run stay held."""
    spider, task = run.task.spider, run.task.pk
    row = case.spiders.filter(spider=spider).first()
    if row is None:
        good, bad = run.evidence.versions
        if case.spiders.count() < MAX_SPIDERS:
            case.spiders.create(
                spider=spider, fields=found.fields[:MAX_FIELDS], first_task=task, last_task=task,
                last_good=run.good or None, good_version=good, version=bad, held=run.held,
            )  # fmt: skip
        return
    row.fields = [*dict.fromkeys([*row.fields, *found.fields])][:MAX_FIELDS]
    row.last_task, row.is_good = max(row.last_task, task), False
    if not row.proposals or not all(row.proposals.values()):
        row.proposals = None  # this run may prove some
    row.save()


def _together(case: Case) -> Case:
    """Makes one case of refusals of several hosts at the same time: it is our addresses."""
    some = Case.objects.select_for_update().filter(
        Case.LIVE, key__startswith=REFUSED, opened_at__gt=Now() - SAME_TIME
    )
    cases = {one.pk: one for one in some.order_by("pk")}
    hosts = sorted({one.host for one in cases.values() if one.host})
    if case.key == REFUSED or not refusing_hosts(hosts):
        return case
    first, *others = cases.values()
    spiders = {*first.spiders.values_list("spider", flat=True)}
    for other in others:
        other.spiders.exclude(spider__in=spiders).update(case=first)
        spiders |= {*first.spiders.values_list("spider", flat=True)}
        other.state, other.ended_at = State.CLOSED, Now()
        other.proof = {**other.proof, "part_of": first.pk}
        other.save()
    first.key, first.cause, first.blame, first.host = REFUSED, Cause.BLOCKED, Case.Blame.WE, ""
    first.proof = {**first.proof, "hosts": hosts[:10]}
    first.save()
    return first


# -- the end of cases ------------------------------------------------------------------------------


def end_fixed() -> int:
    """Ends the cases of which a later run of each spider was good. Returns how many. Raises
    django.db.Error."""
    for row in CaseSpider.objects.filter(CaseSpider.LIVE, is_good=False):
        if _is_good_again(row):
            CaseSpider.objects.filter(pk=row.pk, last_task=row.last_task).update(is_good=True)
    bad = CaseSpider.objects.filter(case=OuterRef("pk"), is_good=False)
    rows = Case.objects.filter(~Exists(bad), Case.LIVE)
    return rows.update(state=State.FIXED, ended_at=Now())


def _is_good_again(row: CaseSpider) -> bool:
    """Whether a later run with the same arguments was good, or the findings were accepted."""
    last = Task.objects.filter(pk=row.last_task).values_list("arguments_hash", flat=True)
    same = Q(spider=row.spider, arguments_hash=last.first())
    later = Q(task__gt=row.last_task) | Q(task=row.last_task, baseline=True)
    good = Profile.objects.filter(same, later, good=True)
    if not last.exists():  # it was removed
        good = Profile.objects.filter(later, spider=row.spider, good=True)
    return good.exists()


def end_old() -> None:
    """Closes cases that no run has continued for long, and deletes those that ended long ago.
    Raises django.db.Error."""
    old = Case.objects.filter(Case.LIVE, seen_at__lt=Now() - MAX_AGE)
    old.update(state=State.CLOSED, ended_at=Now())
    Case.objects.filter(~Case.LIVE, ended_at__lt=Now() - KEPT_SPAN).delete()


# -- events ----------------------------------------------------------------------------------------


def mark(until: int) -> None:
    """Records that cases were made of all events up to this one. Raises django.db.Error."""
    rows = Installation.objects.filter(Q(diagnosed=None) | Q(diagnosed__lt=until), pk=1)
    rows.update(diagnosed=until)


def marked() -> int | None:
    return Installation.objects.filter(pk=1).values_list("diagnosed", flat=True).first()
