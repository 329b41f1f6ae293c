"""The page that submits a task: choose a spider, then fill in its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from crawlframe.errors import CrawlframeError, FrontierError
from crawlframe.request.request import MAX_TASK_PRIORITY
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.roles import User
from crawlservice.admin.parts.fields import whole
from crawlservice.admin.parts.pages import FORM, may, page, posted, to, to_row, whole_page
from crawlservice.admin.parts.spider_fields import (
    PREFIX,
    SETTING,
    LabelsField,
    argument_fields,
    clean_settings,
    filled_in,
    is_untouched,
    setting_fields,
)
from crawlservice.admin.parts.steering import note
from crawlservice.models import Task
from crawlservice.tasks import spider_switch, submit
from crawlservice.tasks.arguments.secrets import has_secrets, readable
from crawlservice.tasks.arguments.spider_arguments import problems, shortened
from crawlservice.tasks.labels import of_task
from crawlservice.tasks.overrides import detail


@page("submit/", "submit", "submit_task", FORM)
def submit_page(request: HttpRequest) -> HttpResponse:
    name = request.GET.get("spider", "")
    return _form(request, name) if name else _choice(request)


def _choice(request: HttpRequest) -> HttpResponse:
    known: dict[str, SpiderInfo] = {}
    try:
        known = submit.spiders()
    except CrawlframeError as error:
        messages.error(request, str(error))
    return whole_page(
        *(request, "submit_choice", _("Submit a task")),
        spiders=known.values(),
        disabled=spider_switch.disabled(),
        is_fullwidth="",
    )


def _form(request: HttpRequest, name: str) -> HttpResponse:
    try:
        spider_switch.check(name)
        info = submit.published(name)
    except CrawlframeError as error:
        messages.error(request, str(error))
        return to("submit")
    form = SubmitForm(info, request.user, posted(request), *_cloned(request, info))
    if request.method == "POST" and form.is_valid() and (answer := _submit_form(request, form)):
        return answer
    return whole_page(
        *(request, "submit_form", _("Submit {spider}").format(spider=info.name)),
        info=info,
        form=form,
        is_fullwidth="",
    )


def submit_at_once(request: HttpRequest, name: str) -> HttpResponse:
    """Submits a task of a spider and shows it. If the spider has arguments, its form comes
    first."""
    try:
        info = submit.published(name)
        if not info.arguments.get("properties"):
            return _submit(request, info)
    except CrawlframeError as error:
        messages.error(request, str(error))
    return HttpResponseRedirect(f"{reverse('admin:submit')}?spider={name}")


def _submit_form(request: HttpRequest, form: SubmitForm) -> HttpResponse | None:
    try:
        given = form.cleaned_data
        return _submit(
            *(request, form.info, form.given),
            priority=given["priority"],
            settings=form.settings,
            labels=given["labels"],
        )
    except CrawlframeError as error:
        form.add_error(None, str(error))
        return None


def _submit(
    request: HttpRequest,
    info: SpiderInfo,
    arguments: Mapping[str, Any] = MappingProxyType({}),
    priority: int = 0,
    settings: Mapping[str, Any] = MappingProxyType({}),
    labels: Mapping[str, str] = MappingProxyType({}),
) -> HttpResponse:
    """Raises CrawlframeError."""
    try:
        with transaction.atomic():  # recorded even if Redis could not be updated
            task = submit.submit(
                info.name,
                dict(arguments),
                priority=priority,
                from_text=True,
                info=info,
                user=request.user,
                settings=settings,
                labels=labels,
            )
            told = {"spider": task.spider, "arguments": shortened(task.arguments), **detail(task)}
            note(request, "submit", task, **told)
    except FrontierError as error:  # the message says whether the task was recorded anyway
        messages.error(request, str(error))
        return to("crawlservice_task_changelist")
    messages.success(request, _("Submitted: {task}").format(task=task))
    return to_row(task)


def _cloned(
    request: HttpRequest, info: SpiderInfo
) -> tuple[dict[str, Any], int, dict[str, Any], dict[str, str]]:
    """Initial arguments, priority, settings and labels, from the task to be cloned. Its secrets are
    only for the user that entered them: with other arguments, they could be sent anywhere."""
    number = request.GET.get("clone", "")
    if not re.fullmatch(r"\d{1,18}", number) or not may(request, "view_task"):
        return {}, 0, {}, {}
    task = Task.objects.filter(pk=int(number), spider=info.name).defer("seeds").first()
    if task is None:
        return {}, 0, {}, {}
    arguments = readable(task.arguments)
    if task.user_id != request.user.pk or task.reparse is not None:
        arguments = {name: value for name, value in arguments.items() if not has_secrets(value)}
    return arguments, task.priority, task.overrides, of_task(task.pk)


class SubmitForm(forms.Form):
    """``given`` are the arguments that were filled in, as text: values other than the spider's
    defaults, and the secrets of ``arguments`` whose fields were left as they were. ``settings``: of
    the task."""

    def __init__(
        self,
        info: SpiderInfo,
        user: User,
        data: Any = None,
        arguments: dict[str, Any] | None = None,
        priority: int = 0,
        settings: dict[str, Any] | None = None,
        labels: dict[str, str] | None = None,
    ) -> None:
        """``arguments``, ``priority``, ``settings`` and ``labels`` are the initial values; secrets
        are not shown. ``user``: the submitter."""
        super().__init__(data)
        self.info = info
        self.given: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self._user = user
        self._before = arguments or {}
        self.fields.update(argument_fields(info, arguments or {}))
        self.fields["priority"] = whole(
            *(_("Priority"), _("-100 to 100; higher runs first")),
            required=True,
            initial=priority,
            min_value=-MAX_TASK_PRIORITY,
            max_value=MAX_TASK_PRIORITY,
        )
        self.fields["labels"] = LabelsField(initial=labels or {})
        self.fields.update(setting_fields(info, settings or {}, user))

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        self.given = filled_in(self.info, found) | {
            name: value
            for name, value in self._before.items()
            if has_secrets(value) and is_untouched(self, name, value)
        }
        for name, problem in problems(self.info, self.given, from_text=True).items():
            if PREFIX + name not in self.errors:
                self.add_error(PREFIX + name, problem)
        self.settings = clean_settings(self, self.info, found, self._user)
        return found

    @property
    def main_fields(self) -> list[forms.BoundField]:
        return [field for field in self if not field.name.startswith(SETTING)]

    @property
    def setting_fields(self) -> list[forms.BoundField]:
        return [field for field in self if field.name.startswith(SETTING)]

    @property
    def has_settings(self) -> bool:
        """Whether any setting is filled in, or wrong."""
        return any(field.value() not in ("", None) or field.errors for field in self.setting_fields)
