"""The form that submits a task: the arguments of its spider, its priority and its settings."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from unfold.widgets import UnfoldAdminIntegerFieldWidget

from crawlframe.request.request import MAX_TASK_PRIORITY
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.roles import User
from crawlservice.admin.parts.argument_form import PREFIX, argument_fields, filled_in, is_untouched
from crawlservice.admin.parts.label_field import LabelsField
from crawlservice.admin.parts.setting_fields import SETTING, clean_settings, setting_fields
from crawlservice.tasks.arguments.secrets import has_secrets
from crawlservice.tasks.arguments.spider_arguments import problems


class SubmitForm(forms.Form):
    """``given`` are the arguments that were filled in, as text: those that differ from the spider's
    defaults, and the secrets of ``arguments`` whose fields were left as they were. ``settings`` are
    those of the task."""

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
        are not shown. ``user``: who submits it."""
        super().__init__(data)
        self.info = info
        self.given: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self._user = user
        self._before = arguments or {}
        self.fields.update(argument_fields(info, arguments or {}))
        self.fields["priority"] = forms.IntegerField(
            label=_("priority"),
            initial=priority,
            min_value=-MAX_TASK_PRIORITY,
            max_value=MAX_TASK_PRIORITY,
            help_text=_("-100 to 100; higher runs first"),
            widget=UnfoldAdminIntegerFieldWidget(),
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
