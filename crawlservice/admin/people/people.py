"""Users and their roles in the admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminRadioSelectWidget

from crawlservice.accounts import roles
from crawlservice.admin.parts.fields import switch
from crawlservice.admin.parts.filters import filter_by
from crawlservice.admin.parts.lookups import DeclaredLookups, Journaled, Owner, column
from crawlservice.display import laid_out


class WithRole(forms.ModelForm):
    """The user's role: one that the editing user may give. Users cannot change their own."""

    actor: User

    role = forms.ChoiceField(label=_("Role"), required=False, widget=UnfoldAdminRadioSelectWidget)
    keeps = switch(
        _("Credentials"),
        _("also edits the passwords and tokens for the sites that are crawled"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        has = roles.role_of(self.instance) if self.instance.pk else ""
        self.initial.setdefault("role", has)
        if "keeps" in self.fields:
            self.initial["keeps"] = bool(self.instance.pk) and roles.is_keeper(self.instance)
            if not self.actor.is_superuser:
                del self.fields["keeps"]
        field = self.fields["role"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [
            (role, told)
            for role, told in roles.TOLD.items()
            if role == has or roles.may_give(self.actor, role)
        ]
        if self.instance.pk == self.actor.pk:
            field.disabled = True
            if "is_active" in self.fields:
                self.fields["is_active"].disabled = True


class ChangeForm(WithRole, UserChangeForm):
    pass


class AddForm(WithRole, UserCreationForm):
    usable_password = None


class PasswordForm(AdminPasswordChangeForm):
    usable_password = None


ByRole = filter_by(
    *(_("role"), "role", roles.NAMES.items),
    lambda rows, role: rows.filter(
        Q(is_superuser=True) if role == roles.SUPERUSER else Q(groups__name=role)
    ),
)


ABILITIES = {
    "add": _("Can add {things}"),
    "change": _("Can change {things}"),
    "delete": _("Can delete {things}"),
    "view": _("Can view {things}"),
}

admin.site.unregister([User, Group])  # as django.contrib.auth.admin registered them


@admin.register(User)
class UserAdmin(Journaled, Owner, DjangoUserAdmin, ModelAdmin):
    form = ChangeForm
    add_form = AddForm
    change_password_form = PasswordForm
    list_display = ("username", "role", "is_active", "first_name", "last_name", "last_login")
    list_filter = (ByRole, "is_active")
    fieldsets = (
        (None, {"fields": ("username", "password", "role", "is_active")}),
        (_("Person"), {"fields": ("first_name", "last_name", "email")}),
        (_("Dates"), {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = ((None, {"fields": ("username", "password1", "password2", "role")}),)
    readonly_fields = ("last_login", "date_joined")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Only a superuser appoints keepers of credentials."""
        found = super().get_fieldsets(request, obj)
        if not request.user.is_superuser:
            return found
        (name, first), *others = found
        return [(name, {**first, "fields": (*first["fields"], "keeps")}), *others]

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        rows: QuerySet[User] = super().get_queryset(request)
        return rows.prefetch_related("groups")

    @admin.display(description=_("role"))
    def role(self, user: User) -> str:
        role = roles.role_of(user)
        return str(roles.NAMES[role]) if role else "-"

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> type[WithRole]:
        form = super().get_form(request, obj, change=change, **kwargs)
        return type(form.__name__, (form,), {"actor": request.user})

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not change or "role" in form.changed_data:
            roles.give_role(obj, form.cleaned_data["role"])
        if "keeps" in form.changed_data:
            roles.make_keeper(obj, form.cleaned_data["keeps"])

    def details(self, row: User) -> dict[str, Any]:
        keeps = {"keeps": True} if roles.is_keeper(row) else {}
        return {"role": roles.role_of(row), **keeps}

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        if not super().has_change_permission(request, obj):
            return False
        return obj is None or roles.may_change(request.user, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        if not super().has_delete_permission(request, obj):
            return False
        return obj is None or (obj != request.user and roles.may_change(request.user, obj))


@admin.register(Group)
class GroupAdmin(Journaled, DeclaredLookups, DjangoGroupAdmin, ModelAdmin):
    """The groups of roles are rebuilt after each migration; only superusers manage other groups."""

    list_display = ("shown_name", "users")
    readonly_fields = ("shown_name", "may")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        rows: QuerySet[Group] = super().get_queryset(request)
        return rows.annotate(users_count=Count("user"))

    def get_fields(self, request: HttpRequest, obj: Group | None = None) -> tuple[str, ...]:
        return ("shown_name", "may") if _is_role(obj) else ("name", "permissions")

    def formfield_for_manytomany(self, *args: Any, **kwargs: Any) -> Any:
        field = super().formfield_for_manytomany(*args, **kwargs)
        if isinstance(field, forms.ModelMultipleChoiceField):
            field.label_from_instance = _permission_text  # type: ignore[assignment, method-assign]
        return field

    @admin.display(description=_("name"), ordering="name")
    def shown_name(self, group: Group) -> str:
        return str(roles.NAMES.get(group.name, group.name))

    @admin.display(description=_("permissions"))
    def may(self, group: Group) -> SafeString:
        rows = group.permissions.select_related("content_type").order_by("content_type", "pk")
        return laid_out("\n".join(map(_permission_text, rows)))

    users = column(int, _("members"), "users_count")

    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return super().has_change_permission(request, obj) and not _is_role(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return super().has_delete_permission(request, obj) and not _is_role(obj)


def _permission_text(permission: Permission) -> str:
    """The permission's name in the reader's language; the database stores it in English."""
    model = permission.content_type.model_class()
    verb = permission.codename.partition("_")[0]
    usual = model is not None and permission.codename == f"{verb}_{model._meta.model_name}"
    if model is not None and usual and verb in ABILITIES:
        return str(ABILITIES[verb]).format(things=model._meta.verbose_name_plural)
    return gettext(permission.name)


def _is_role(group: Group | None) -> bool:
    return group is not None and group.name in (*roles.ROLES, roles.KEEPER)
