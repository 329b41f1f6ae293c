"""Input of a recipe's form, made a recipe; mistakes are noted at their fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.utils.translation import gettext as _

from crawlframe.recipes.reading import Problem, RecipeError, from_data
from crawlframe.recipes.recipe import Recipe
from crawlservice.admin.recipes.form import ArgumentRows, FieldRows, RecipeForm, RuleRows


class Forms(NamedTuple):
    """The form of a recipe with its rows."""

    main: RecipeForm
    fields: Any
    details: Any
    rules: Any
    arguments: Any

    @classmethod
    def of(cls, data: Any = None, initial: dict[str, Any] | None = None) -> Forms:
        rows = (initial or {}).get("rows", {"fields": [{}]})
        kinds = {
            "fields": FieldRows, "details": FieldRows, "rules": RuleRows, "arguments": ArgumentRows,
        }  # fmt: skip
        made = {
            prefix: kind(data, prefix=prefix, initial=rows.get(prefix, []))
            for prefix, kind in kinds.items()
        }
        return cls(RecipeForm(data, initial=initial), **made)

    def contents(self) -> Recipe | None:
        """The recipe that was typed; None if it has mistakes, which are noted at their fields."""
        valid = [one.is_valid() for one in self]  # all of them: each shows its mistakes
        if not all(valid):
            return None
        data = self.main.data_of_recipe()
        data["fields"], data["required"] = _fields(self.fields)
        data["rules"] = [row.typed() for row in self.rules.filled()]
        data["arguments"] = {
            row.cleaned_data["name"]: row.typed() for row in self.arguments.filled()
        }
        detail = self.main.data_of_detail()
        details, required = _fields(self.details)
        if detail is not None:
            data["detail"] = detail | {"fields": details, "required": required}
        elif details:
            self.main.add_error("detail", _("The fields of its page need the link to it."))
            return None
        try:
            return from_data(data)
        except RecipeError as error:
            for problem in error.problems:
                self._note(problem)
            return None

    def mistakes(self) -> Iterator[tuple[str, Any]]:
        """Label and text of each mistake."""
        for form in (self.main, *(row for rows in self[1:] for row in rows.forms)):
            row = "" if form is self.main else form.data.get(form.add_prefix("name"), "")
            for name, errors in form.errors.items():
                label = form.fields[name].label if name in form.fields else ""
                for error in errors:
                    yield " ".join(str(word) for word in (row, label) if word), error

    def _note(self, problem: Problem) -> None:
        head, rest = (problem.path or ("",))[0], problem.path[1:]
        rows = {"fields": self.fields, "arguments": self.arguments}.get(str(head))
        if head == "detail" and rest[:1] == ("fields",):
            rows, rest = self.details, rest[1:]
        if rows is not None and rest:
            for row in rows.filled():
                if row.cleaned_data["name"] == rest[0]:
                    _add(row, str(rest[-1]), "expression", problem)
                    return
        if head == "rules" and rest and isinstance(rest[0], int):
            _add(self.rules.filled()[rest[0]], str((*rest, "")[1]), "allow", problem)
            return
        if head == "settings" and rest and rest[0] in self.main.fields:
            head = rest[0]
        _add(self.main, f"{head}_{rest[0]}" if rest else str(head), str(head), problem)


def _fields(rows: Any) -> tuple[dict[str, Any], list[str]]:
    filled = rows.filled()
    data = {row.cleaned_data["name"]: row.typed() for row in filled}
    return data, [row.cleaned_data["name"] for row in filled if row.cleaned_data["required"]]


def _add(form: Any, name: str, otherwise: str, problem: Problem) -> None:
    """Notes a problem at a field of the form, or above it."""
    field = next((one for one in (name, otherwise) if one in form.fields), None)
    form.add_error(field, problem.text if field else str(problem))
