"""The section of a task's page that says how good its run is."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from crawlservice.accounts.roles import may_steer
from crawlservice.admin.parts.live import STOP
from crawlservice.admin.parts.steering import note
from crawlservice.models import Finding, Profile, Task
from crawlservice.quality import deviation
from crawlservice.quality.wording import Words, words_of


class Scale(NamedTuple):
    """A picture of what was expected and seen: percent of its width."""

    left: float
    width: float
    seen: float
    usual: float | None


class ShownFinding(NamedTuple):
    finding: Finding
    words: Words
    scale: Scale


@require_safe
def part(request: HttpRequest, pk: int) -> HttpResponse:
    """The fragment; it changes while the task runs, and until its end was judged."""
    task = get_object_or_404(Task.objects.defer("seeds"), pk=pk)
    context = shown(request, task)
    status = 200 if context["quality_open"] else STOP
    name = "admin/crawlservice/_task_quality.html"
    return TemplateResponse(request, name, context, status=status)


@require_POST
def accept(request: HttpRequest, pk: int) -> HttpResponse:
    """Accepts the findings of a task: from it on, this is what is usual."""
    task = get_object_or_404(Task.objects.defer("seeds"), pk=pk)
    if not may_steer(request.user, task):
        raise PermissionDenied
    try:
        count = deviation.accept(pk)
    except deviation.NothingFound as error:
        messages.error(request, str(error))
    else:
        note(request, "accept quality", task, findings=count)
        messages.success(request, _("Accepted. Later runs are compared with this one."))
    return HttpResponseRedirect(reverse("admin:crawlservice_task_change", args=[pk]))


def shown(request: HttpRequest, task: Task) -> dict[str, Any]:
    found = deviation.of_task(task.pk)
    profile = Profile.objects.filter(task=task).defer("content").first()
    judged = profile is not None and profile.judged
    return {
        "task": task,
        "profile": profile,
        "judged": judged,
        "quality_open": task.state in Task.ACTIVE or (profile is not None and not judged),
        "found": [ShownFinding(one, words_of(one), _scale(one)) for one in found],
        "may_accept": (
            judged
            and any(one.accepted_at is None for one in found)
            and may_steer(request.user, task)
        ),
    }


def _scale(finding: Finding) -> Scale:
    low, high, seen, usual = finding.low, finding.high, finding.seen, finding.usual
    most = 1.0
    if finding.unit != "share":
        most = 1.2 * max(
            abs(value) for value in (low, high, seen, usual, 1e-9) if value is not None
        )

    def place(value: float) -> float:
        return round(min(100.0, max(0.0, 100 * value / most)), 1)

    left = place(low) if low is not None else 0.0
    right = place(high) if high is not None else 100.0
    return Scale(left, max(1.0, right - left), place(seen), None if usual is None else place(usual))
