"""The page on which the limits of a running task are changed."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by
from crawlservice.accounts.roles import may_steer
from crawlservice.admin.hosts.order_form import LimitsForm
from crawlservice.models import Task
from crawlservice.tasks.limits import AUTO, BadLimit, change_limits
from crawlservice.tasks.stored_limits import limits_as_written
from crawlservice.tasks.submit import RedisNotUpdated

CHANGEABLE = (Task.State.RUNNING, Task.State.PAUSED)


def page(site: AdminSite, request: HttpRequest, pk: int) -> HttpResponse:
    task = get_object_or_404(Task.objects.defer("seeds"), pk=pk)
    if not may_steer(request.user, task):
        raise PermissionDenied
    data = request.POST if request.method == "POST" else None
    form = LimitsForm(data, initial=_present(task))
    if request.method == "POST" and form.is_valid() and _changed(request, task, form):
        return HttpResponseRedirect(reverse("admin:crawlservice_task_change", args=[pk]))
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": str(task),
        "opts": Task._meta,
        "task": task,
        "form": form,
    }
    return TemplateResponse(request, "admin/crawlservice/task_limits.html", context)


def _changed(request: HttpRequest, task: Task, form: LimitsForm) -> bool:
    """False: the form says what is wrong."""
    present = LimitsForm(data=_present(task))
    present.is_valid()
    new = {
        name: value
        for name, value in form.cleaned_data.items()
        if value != present.cleaned_data.get(name)
    }
    try:
        if new:
            change_limits(task.pk, by(request), **new)
    except BadLimit as error:
        form.add_error(error.field, str(error))
        return False
    except RedisNotUpdated as error:
        messages.warning(request, str(error))
    except CrawlframeError as error:
        form.add_error(None, str(error))
        return False
    else:
        if new:
            messages.success(request, _("The limits are in force on all nodes"))
    return True


def _present(task: Task) -> dict[str, Any]:
    """The limits as they are now."""
    known = limits_as_written(task)
    if known.get("adaptive"):
        known["delay"] = AUTO
    return {name: known.get(name, 0) for name in LimitsForm.base_fields}
