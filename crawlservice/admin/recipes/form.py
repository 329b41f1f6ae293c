"""The form of a recipe: everything that a file can say, for people who do not write code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from django import forms
from django.forms import BaseFormSet, formset_factory
from django.utils.translation import gettext_lazy as _

from crawlframe.recipes.converters import CONVERTERS
from crawlframe.recipes.recipe import Recipe, as_data
from crawlservice.admin.parts.fields import choice, lines, switch, text, whole

MARKUP = [("css", _("CSS selector")), ("xpath", _("XPath"))]
JSON = ("jmespath", _("JSON path"))
REGEX = ("regex", _("pattern"))
PAGE = ("page", _("of the page"))
NUMBER = ("number", _("numbered address"))
TYPES = [
    ("text", _("text")), ("int", _("whole number")), ("float", _("number")),
    ("bool", _("yes or no")), ("date", _("date")), ("url", _("address")),
    ("list", _("list of texts")),
]  # fmt: skip
LIMITS = ("page_limit", "depth_limit", "delay", "concurrency")


class RecipeRow(forms.Form):
    """``MORE``: fields that are folded away while they are empty."""

    MORE: tuple[str, ...] = ()
    gone = forms.BooleanField(required=False, widget=forms.HiddenInput(attrs={"data-gone": ""}))

    def main(self) -> list[forms.BoundField]:
        return [field for field in self if field.name not in ("gone", *self.MORE)]

    def more(self) -> list[forms.BoundField]:
        return [self[name] for name in self.MORE]

    def uses_more(self) -> bool:
        return any(field.value() or field.errors for field in self.more())


class FieldRow(RecipeRow):
    """A field of an item."""

    MORE = ("attribute", "regex", "jmespath", "default")
    name = text(_("name"))
    kind = choice(_("found by"), [*MARKUP, JSON, REGEX, PAGE])
    expression = text(_("selector"), attrs={"data-pick": "field"})
    convert = text(_("convert"), attrs={"list": "converters"}, strip=False)
    required = switch(_("required"), initial=False)
    attribute = text(_("attribute"), help_text=_("of the element, such as href"))
    jmespath = text(_("then JSON path"), help_text=_("in JSON that the element holds"))
    regex = text(_("then pattern"), help_text=_("a regular expression; its first group counts"))
    default = text(_("if nothing is found"))

    def typed(self) -> dict[str, Any]:
        given = self.cleaned_data
        found = {name: given[name] for name in ("attribute", "jmespath", "regex") if given[name]}
        found |= {given["kind"] or "css": given["expression"]}
        if given["convert"].strip():
            found["convert"] = [given["convert"]]
        if given["default"]:
            found["default"] = _value(given["default"])
        return found


class RuleRow(RecipeRow):
    """A rule of the links that are followed."""

    allow = lines(_("addresses like"), 1, help_text=_("patterns, one per line; none: all"))
    deny = lines(_("but not like"), 1)
    restrict_css = lines(_("only links in"), 1, help_text=_("CSS selectors, one per line"))
    restrict_xpath = lines(_("or in (XPath)"), 1)
    items = switch(_("items"), initial=True, help_text=_("the pages have items"))
    follow = switch(_("follow"), initial=True, help_text=_("the rules apply to the pages, too"))

    def typed(self) -> dict[str, Any]:
        given = self.cleaned_data
        names = ("allow", "deny", "restrict_css", "restrict_xpath")
        return {name: lines for name in names if (lines := _each_line(given[name]))} | {
            name: given[name] for name in ("items", "follow")
        }


class ArgumentRow(RecipeRow):
    """The question for one argument, asked at each run of the spider."""

    name = text(_("name"))
    type = choice(_("type"), TYPES)
    default = text(_("default"))
    choices = text(_("choices"), help_text=_("separated by commas"))

    def typed(self) -> dict[str, Any]:
        given = self.cleaned_data
        found: dict[str, Any] = {"type": given["type"] or "text"}
        if given["choices"]:
            found["choices"] = [one.strip() for one in given["choices"].split(",") if one.strip()]
        if given["default"]:
            is_text = found["type"] in ("text", "date", "url")
            found["default"] = given["default"] if is_text else _value(given["default"])
            if found["type"] == "list" and isinstance(found["default"], str):
                found["default"] = [one.strip() for one in given["default"].split(",")]
        return found


class RecipeForm(forms.Form):
    name = text(_("name"), help_text=_("letters, digits and . _ -"))
    description = lines(_("description"), 2)
    start_urls = lines(
        _("start addresses"),
        3,
        help_text=_("one per line; {1..9} stands for numbers, {name} for an argument"),
    )
    same_site = switch(
        _("same site"), initial=True, help_text=_("other hosts than those above are left alone")
    )
    allowed_domains = text(_("further hosts"), help_text=_("separated by spaces"))
    start_items = switch(_("start pages have items"), initial=True)
    each_kind = choice(_("each item is"), [*MARKUP, JSON])
    each = text(
        _("selector of an item"),
        help_text=_("empty: the whole page is one item"),
        attrs={"data-pick": "part"},
    )
    next_kind = choice(_("next page"), [*MARKUP, JSON, REGEX, NUMBER])
    next = text(_("selector of the link"), attrs={"data-pick": "page"})
    next_url = text(
        _("address"), help_text=_("with {page} for the number, {value} for the value found")
    )
    next_first = whole(_("first number"))
    next_limit = whole(_("at most"), _("pages; empty: all"), min_value=0)
    detail_kind = choice(_("page of details"), [*MARKUP, JSON])
    detail = text(_("selector of its link"), attrs={"data-pick": "field"})
    detail_url = text(_("address"), help_text=_("with {value} for the value found"))
    page_limit = text(_("pages"), help_text=_("of a task, at most"))
    depth_limit = text(_("depth"), help_text=_("links from a start page, at most"))
    delay = text(
        _("delay"), help_text=_("seconds between two requests to a host; empty: automatic")
    )
    concurrency = text(_("at a time"), help_text=_("requests to a host"))
    settings = lines(_("other settings"), 2, help_text=_('JSON, such as {"timeout": 60}'))

    expect = lines(
        _("expected of each run"), 2, help_text=_('JSON, such as {"items": 100, "unique": "url"}')
    )

    WIDE = ("description", "start_urls", "settings", "expect")  # as wide as the form
    GROUPS = {
        "site": ("name", "description", "start_urls", "same_site", "allowed_domains"),
        "item": ("each_kind", "each", "start_items"),
        "details": ("detail_kind", "detail", "detail_url"),
        "further": ("next_kind", "next", "next_url", "next_first", "next_limit"),
        "limits": (*LIMITS, "settings", "expect"),
    }

    def groups(self) -> dict[str, list[forms.BoundField]]:
        """The fields of each part of the page."""
        return {part: [self[name] for name in names] for part, names in self.GROUPS.items()}

    def clean_settings(self) -> dict[str, Any]:
        return self._object("settings", _('Enter a JSON object, such as {"timeout": 60}.'))

    def clean_expect(self) -> dict[str, Any]:
        return self._object("expect", _('Enter a JSON object, such as {"items": 100}.'))

    def _object(self, name: str, otherwise: Any) -> dict[str, Any]:
        text = self.cleaned_data[name].strip()
        try:
            given = json.loads(text) if text else {}
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(_("Not JSON: %s") % error) from None
        if not isinstance(given, dict):
            raise forms.ValidationError(otherwise)
        return given

    def data_of_recipe(self) -> dict[str, Any]:
        given = self.cleaned_data
        found: dict[str, Any] = {
            "name": given["name"].strip(),
            "description": given["description"].replace("\r\n", "\n").strip(),
            "start_urls": _each_line(given["start_urls"]),
            "same_site": given["same_site"],
            "allowed_domains": given["allowed_domains"].replace(",", " ").split(),
            "start_items": given["start_items"],
            "settings": {**given.get("settings", {}), **self._limits()},
            "expect": given.get("expect", {}),
        }
        if given["each"]:
            found["each"] = {given["each_kind"] or "css": given["each"]}
        next_ = {"url": given["next_url"]} if given["next_url"] else {}
        if given["next"] and given["next_kind"] != "number":
            next_[given["next_kind"] or "css"] = given["next"]
        if next_:
            more = {"first": given["next_first"], "limit": given["next_limit"]}
            found["next"] = next_ | {key: one for key, one in more.items() if one is not None}
        return found

    def data_of_detail(self) -> dict[str, Any] | None:
        given = self.cleaned_data
        if not given["detail"]:
            return None
        found = {given["detail_kind"] or "css": given["detail"]}
        return found | ({"url": given["detail_url"]} if given["detail_url"] else {})

    def _limits(self) -> dict[str, Any]:
        typed = {name: self.cleaned_data[name].strip() for name in LIMITS}
        return {name: _value(text) for name, text in typed.items() if text}


class RecipeRows(BaseFormSet):
    """Rows that were neither removed nor left empty."""

    def _construct_form(self, i: int, **kwargs: Any) -> Any:
        form = super()._construct_form(i, **kwargs)  # type: ignore[misc]
        form.empty_permitted = False  # a row that is as it was added has values, too
        return form

    def filled(self) -> list[Any]:
        return [row for row in self.forms if not row.cleaned_data["gone"] and self.counts(row)]

    def counts(self, row: Any) -> bool:
        texts = (name for name in row.fields if name not in ("kind", "type", "required", "gone"))
        return any(row.cleaned_data[name] for name in texts)


class AllRows(RecipeRows):
    """Rows that were not removed: a rule without any pattern follows all links."""

    def counts(self, row: Any) -> bool:
        return True


FieldRows = formset_factory(FieldRow, formset=RecipeRows, extra=0, max_num=100)
RuleRows = formset_factory(RuleRow, formset=AllRows, extra=0, max_num=100)
ArgumentRows = formset_factory(ArgumentRow, formset=RecipeRows, extra=0, max_num=50)


def initial_of(recipe: Recipe) -> dict[str, Any]:
    """The values of RecipeForm, and under "rows" those of the formsets by prefix."""
    data = as_data(recipe)
    settings = dict(data.get("settings", {}))
    found: dict[str, Any] = {
        "name": recipe.name,
        "description": recipe.description,
        "start_urls": "\n".join(recipe.start_urls),
        "same_site": recipe.same_site,
        "allowed_domains": " ".join(recipe.allowed_domains),
        "start_items": recipe.start_items,
        **{name: _typed(settings.pop(name)) for name in LIMITS if name in settings},
        "settings": json.dumps(settings, ensure_ascii=False) if settings else "",
        "expect": json.dumps(recipe.expect, ensure_ascii=False) if recipe.expect else "",
    }
    found["each_kind"], found["each"] = _kind_of(data.get("each", {}), ("css", "xpath", "jmespath"))
    next_ = data.get("next", {})
    found["next_kind"], found["next"] = _kind_of(next_, ("css", "xpath", "jmespath", "regex"))
    if next_ and not found["next"]:
        found["next_kind"] = "number"
    found |= {f"next_{name}": next_.get(name) for name in ("url", "first", "limit")}
    detail = data.get("detail", {})
    found["detail_kind"], found["detail"] = _kind_of(detail, ("css", "xpath", "jmespath"))
    found["detail_url"] = detail.get("url", "")
    found["rows"] = {
        "fields": _rows_of(data.get("fields", {}), data.get("required", ())),
        "details": _rows_of(detail.get("fields", {}), detail.get("required", ())),
        "rules": [
            {
                name: "\n".join(value) if isinstance(value, list) else value
                for name, value in rule.items()
            }
            for rule in data.get("rules", ())
        ],
        "arguments": [
            {
                "name": name,
                "type": one.get("type", "text"),
                "default": _typed(one.get("default")),
                "choices": ", ".join(one.get("choices", ())),
            }
            for name, one in data.get("arguments", {}).items()
        ],
    }
    return found


def converters() -> list[tuple[str, str]]:
    """Name and meaning of each converter, for the list of suggestions."""
    return [(name + (":" if one.takes and not one.may_lack else ""), one.told)
            for name, one in CONVERTERS.items()]  # fmt: skip


def _rows_of(fields: dict[str, Any], required: Iterable[str]) -> list[dict[str, Any]]:
    rows = []
    for name, field in fields.items():
        kind, expression = _kind_of(field, ("css", "xpath", "page", "jmespath", "regex"))
        row = {"name": name, "kind": kind, "expression": expression, "required": name in required}
        row["convert"] = " | ".join(field.get("convert", ()))
        row["default"] = _typed(field.get("default"))
        row |= {
            one: field.get(one, "") for one in ("attribute", "jmespath", "regex") if one != kind
        }
        rows.append(row)
    return rows


def _kind_of(part: dict[str, Any], kinds: Iterable[str]) -> tuple[str, str]:
    return next(((kind, part[kind]) for kind in kinds if part.get(kind)), ("css", ""))


def _each_line(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _value(text: str) -> Any:
    """The typed text as a number, truth value or list if it is one."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, str) or re.match(r"-?0\d", text) else value


def _typed(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
