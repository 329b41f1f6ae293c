"""The form of an export: one field for each part of its definition; of the kinds of targets, only
the chosen kind's are shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args, get_origin

from django import forms
from django.utils.translation import gettext_lazy as _
from pydantic import ValidationError

from crawlframe.base.secret import MASK
from crawlservice.admin.parts.fields import choice, lines, secret, switch, text, whole
from crawlservice.admin.parts.spider_fields import LabelsField, SpiderWidget
from crawlservice.exports import changes
from crawlservice.exports.addresses import BadExport
from crawlservice.exports.definition import Definition, place_of
from crawlservice.exports.source import start_of
from crawlservice.exports.target import FormField, Target, kinds
from crawlservice.models import Export

STORED = _("stored encrypted; empty: unchanged")


class TargetField(NamedTuple):
    """One field of one kind of target, and the form's name for it."""

    kind: str
    field: str
    definition: type[Target]

    @property
    def name(self) -> str:
        return f"{self.kind}_{self.field}"

    @property
    def secret(self) -> bool:
        """Whether it is shown by nothing. A URL is shown with a mask in it."""
        return self.field != "url" and self.field in self.definition.SECRETS


PARTS = [
    TargetField(kind.name, field, kind.definition)
    for kind in kinds().values()
    for field in kind.definition.model_fields
    if field != "kind"
]
# For the theme, which shows the fields of the chosen kind.
CONDITIONS = {part.name: f"kind == '{part.kind}'" for part in PARTS}


class ExportForm(forms.ModelForm):
    """``definition`` is the definition that was entered, if it is valid."""

    name = text(_("Name"), required=True)
    what = choice(_("What"), Export.What.choices, required=True)
    begin = text(
        _("Begin"),
        _("beginning, now, a date such as 2026-11-01T06:00Z, or a row number"),
        initial="beginning",
        required=True,
    )
    spider = text(_("Spider"), _("only of this spider; empty: of all"), widget=SpiderWidget())
    task = whole(_("Task"), _("only of this task; empty: of all"))
    labels = LabelsField()
    usage = text(_("Usage"), _("only of pages whose usage signals match, such as ai-train!=no"))
    chosen = lines(_("Fields"), 2, _("only these, one per line; empty: all"))
    kind = choice(
        _("Target"), [(kind.name, kind.title) for kind in kinds().values()], required=True
    )

    class Meta:
        model = Export
        fields = ()

    definition: Definition

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["labels"].help_text = _("only of tasks that have all of them, one per line")
        self._has = self.instance.pk is not None
        if not self._has:
            return
        row = self.instance
        self.fields.pop("begin", None)
        for name in ("name", "what"):
            self.fields[name].disabled = True
        for name in ("name", "what", "spider", "task", "labels", "usage"):
            self.initial[name] = getattr(row, name)
        self.initial["chosen"] = "\n".join(row.fields)
        self.initial["kind"] = row.target["kind"]
        for part in PARTS:
            if part.kind == row.target["kind"] and part.field in row.target:
                if not part.secret:
                    self.initial[part.name] = row.target[part.field]
                elif row.target[part.field]:
                    self.fields[part.name].help_text = STORED

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        kind = cleaned["kind"]
        target = {"kind": kind} | {
            part.field: cleaned[part.name]
            for part in PARTS
            if part.kind == kind and cleaned[part.name] is not None
        }
        known = self.instance.target if self._has else {}
        for part in PARTS:
            secret = part.secret and part.kind == kind and not target.get(part.field)
            if secret and known.get(part.field):
                target[part.field] = MASK
        given = {name: cleaned[name] for name in ("name", "what", "spider", "task", "usage")}
        fields = [line.strip() for line in cleaned["chosen"].splitlines() if line.strip()]
        given |= {"labels": cleaned["labels"], "fields": fields, "target": target}
        try:
            self.definition = Definition.model_validate(given)
            self.definition.check()
            if self._has:
                changes.kept_target(self.instance, self.definition.target)
            else:
                start_of(given["what"], cleaned["begin"])
                if Export.objects.filter(name=given["name"]).exists():
                    raise BadExport("name", str(_("an export of that name is there already")))
        except ValidationError as error:
            for one in error.errors():
                self._refuse(".".join(map(str, place_of(one["loc"]))), one["msg"])
        except BadExport as error:
            self._refuse(error.field, str(error).partition(": ")[2])
        return cleaned

    def _post_clean(self) -> None:
        """Skips the checks of the model, and copies no values to it."""

    def _refuse(self, field: str, text: str) -> None:
        top, _dot, rest = field.partition(".")
        name = f"{self.cleaned_data['kind']}_{rest}" if top == "target" else top
        name = "chosen" if top == "fields" else name
        self.add_error(name if name in self.fields else None, text)


def _fields() -> Iterator[tuple[str, forms.Field]]:
    """A form field for each part of each target."""
    for part in PARTS:
        info = part.definition.model_fields[part.field]
        shown = next((one for one in info.metadata if isinstance(one, FormField)), None)
        shown = shown or FormField(part.field.replace("_", " ").capitalize())
        words: Any = shown.label, shown.help
        usual: dict[str, Any] = {"initial": None if info.is_required() else info.default}
        field: forms.Field
        if get_origin(info.annotation) is Literal:
            choices = [(word, word or "-") for word in get_args(info.annotation)]
            field = choice(shown.label, choices, shown.help, **usual)
        elif info.annotation is bool:
            field = switch(*words, **usual)
        elif info.annotation is int:
            field = whole(*words, **usual)
        elif shown.lines:
            field = lines(shown.label, shown.lines, shown.help)
            field.initial = usual["initial"]
        elif part.secret:
            field = secret(*words)
        else:
            field = text(*words, **usual)
        yield part.name, field


for _name, _field in _fields():
    ExportForm.base_fields[_name] = ExportForm.declared_fields[_name] = _field
