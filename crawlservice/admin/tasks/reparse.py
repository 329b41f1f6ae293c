"""The page on which the kept pages of a task are parsed again, and the part about it on the page of
such a task."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import floatformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from unfold.widgets import UnfoldBooleanWidget

from crawlframe.errors import FrontierError
from crawlservice.accounts.roles import User, may_steer, may_submit
from crawlservice.admin.parts.fields import choice, text
from crawlservice.admin.parts.pages import FORM, form_page, page, posted
from crawlservice.admin.parts.steering import TASK, note
from crawlservice.models import KeptPage, Task
from crawlservice.reparse import submission as reparse
from crawlservice.reparse.changes import MAX_PAGES, polled_changes
from crawlservice.reparse.submission import TEXT

TODAY = gettext_lazy(
    "They are parsed by today's code, without the network. Their items take the place of the "
    "present items, which stay in a table of replaced items."
)
REASONS = 1_000  # kept pages whose reasons are offered


AS_TYPED = {"autocomplete": "off", "spellcheck": "false"}


def _box(label: Any, help_text: Any, *, initial: bool = False) -> forms.BooleanField:
    return forms.BooleanField(
        label=label,
        required=False,
        widget=UnfoldBooleanWidget,
        initial=initial,
        help_text=help_text,
    )


class ReparseForm(forms.Form):
    reason = choice(
        gettext_lazy("Pages"),
        help_text=gettext_lazy("All kept pages, or the pages kept for one reason."),
    )
    callback = text(
        gettext_lazy("Callback"),
        gettext_lazy("Only pages of this callback; empty: of all."),
        AS_TYPED,
        max_length=TEXT,
    )
    key = text(
        gettext_lazy("Key"),
        gettext_lazy(
            "The field by which items of a page are compared; empty: the field that the spider "
            "expects to be unique, or else their place."
        ),
        AS_TYPED,
        max_length=TEXT,
    )
    dry_run = _box(
        gettext_lazy("Dry run"),
        gettext_lazy("Shows the differences, and changes nothing."),
        initial=True,
    )
    follow = _box(
        gettext_lazy("Follow new links"),
        gettext_lazy("Fetches requests that the task did not know."),
    )
    wait = _box(
        gettext_lazy("Until it has ended"),
        gettext_lazy("Parses also the pages that the task has still to fetch."),
    )

    def __init__(self, task: Task, may_replace: bool, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        some = KeptPage.objects.filter(task=task.pk).exclude(reason="").order_by("pk")
        reasons = sorted({*some.values_list("reason", flat=True)[:REASONS]})
        field = self.fields["reason"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", _("all")), *((reason, reason) for reason in reasons)]
        if task.state not in Task.ACTIVE:
            del self.fields["wait"]
        if not may_replace:
            self.fields["dry_run"].disabled = True
            del self.fields["follow"]

    def submit(self, task: Task, user: User) -> Task:
        """Raises as ``submission.submit``."""
        given = self.cleaned_data
        given |= {"reason": given["reason"] or None, "key": given["key"] or None}
        return reparse.submit(task.pk, user=user, **given)


@page(f"{TASK}/reparse/", "crawlservice_task_reparse", "view_task", FORM)
def reparse_page(request: HttpRequest, pk: int) -> HttpResponse:
    task = get_object_or_404(Task.objects.defer("seeds"), pk=pk)
    if not may_submit(request.user):
        raise PermissionDenied
    form = ReparseForm(task, may_steer(request.user, task), posted(request))
    n = reparse.pages_of(task)
    kept = ngettext("%(shown)s page is kept.", "%(shown)s pages are kept.", n)
    kept %= {"shown": floatformat(n, "0g")}
    if sampled := reparse.samples_of(task):
        kept += " " + _("Of pages that are done, %(n)s are a sample, for dry runs only.") % {
            "n": floatformat(sampled, "0g")
        }
    return form_page(
        *(request, task, form),
        lambda: _submit(request, task, form),
        heading=_("Parse pages of %(task)s again") % {"task": task},
        note=f"{kept} {TODAY}",
        button=_("Parse again"),
    )


def _submit(request: HttpRequest, task: Task, form: ReparseForm) -> Task:
    made = None
    try:
        with transaction.atomic():  # recorded even if Redis could not be updated
            made = form.submit(task, request.user)
            note(request, "reparse", made, parses=reparse.as_given(made))
    except FrontierError as error:
        if made is None:
            raise
        messages.warning(request, str(error))
    return made


def shown(task: Task) -> dict[str, Any]:
    """The values for the page of a task that parses kept pages; {} for other tasks."""
    parsed = reparse.reparse_of(task)
    if parsed is None:
        return {}
    return {
        "parsed": parsed,
        "parses": reparse.in_words(parsed),
        "changes": polled_changes(task),
        "examined": MAX_PAGES,
    }
