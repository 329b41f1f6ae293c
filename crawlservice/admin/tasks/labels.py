"""The page on which the labels of a task are changed."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from crawlservice.accounts.journal import by
from crawlservice.admin.parts.form_page import form_page
from crawlservice.admin.parts.setting_fields import LabelsField
from crawlservice.admin.parts.steering import steered
from crawlservice.tasks.labels import of_task
from crawlservice.tasks.relabel import change_labels


class LabelsForm(forms.Form):
    labels = LabelsField()


def page(site: AdminSite, request: HttpRequest, pk: int) -> HttpResponse:
    task = steered(request, pk)
    data = request.POST if request.method == "POST" else None
    form = LabelsForm(data, initial={"labels": of_task(pk)})

    def change() -> None:
        if form.has_changed():
            change_labels(pk, form.cleaned_data["labels"], by(request))
            messages.success(request, _("The labels are changed"))

    heading = _("Labels of %(task)s") % {"task": task}
    return form_page(site, request, task, form, change, heading=heading, button=_("Change labels"))
