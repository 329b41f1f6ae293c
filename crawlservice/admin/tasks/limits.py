"""The page on which the limits of a running task are changed."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from crawlservice.accounts.journal import by
from crawlservice.admin.hosts.order_form import LimitsForm
from crawlservice.admin.parts.form_page import form_page
from crawlservice.admin.parts.steering import steered
from crawlservice.models import Task
from crawlservice.tasks.limits import change_limits
from crawlservice.tasks.stored_limits import limits_as_written

CHANGEABLE = (Task.State.RUNNING, Task.State.PAUSED)


def page(site: AdminSite, request: HttpRequest, pk: int) -> HttpResponse:
    task = steered(request, pk)
    data = request.POST if request.method == "POST" else None
    form = LimitsForm(data, initial=_present(task))
    return form_page(
        *(site, request, task, form),
        lambda: _change(request, task, form),
        heading=_("Limits of %(task)s") % {"task": task},
        note=_("They change at once on all nodes, for this task only."),
        button=_("Change limits"),
    )


def _change(request: HttpRequest, task: Task, form: LimitsForm) -> None:
    present = LimitsForm(data=_present(task))
    present.is_valid()
    new = {
        name: value
        for name, value in form.cleaned_data.items()
        if value != present.cleaned_data.get(name)
    }
    if new:
        change_limits(task.pk, by(request), **new)
        messages.success(request, _("The limits are in force on all nodes"))


def _present(task: Task) -> dict[str, Any]:
    """The limits as they are now."""
    known = limits_as_written(task)
    return {name: known.get(name, 0) for name in LimitsForm.base_fields}
