"""Texts of the theme, which has no Chinese translation, and Django's names for roles: listed here
so that `make messages` keeps them among ours. Nothing imports this."""

from django.utils.translation import gettext_noop as _

TEXTS = (
    _("After you've created a user, you’ll be able to edit more user options."),
    _("Apply Filters"),
    _("Cancel"),
    _("Dark"),
    _("Date"),
    _("Date from"),
    _("Date to"),
    _("False"),
    _("Filters"),
    _("From"),
    _("Go back"),
    _("Light"),
    _("Next"),
    _("No results matching your query"),
    _("Previous"),
    _(
        "Raw passwords are not stored, so there is no way to see this "
        "user’s password, but you can change the password using "
        '<a href="{}" class="text-primary-600 dark:text-primary-500">this form</a>.'
    ),
    _("Reset filters"),
    _("Select action"),
    _("Select action to run"),
    _("Select all rows"),
    _("Select record"),
    _("Select value"),
    _("Submit"),
    _("System"),
    _("To"),
    _("Toggle password visibility"),
    _("True"),
    _("Type to search"),
    _("Value"),
    _("Welcome back to"),
    _("You have been successfully logged out from the administration"),
    _("group"),
    _("groups"),
)
