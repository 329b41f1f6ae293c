"""Decisions of operators about spiders, and spiders without code, with all their versions."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from crawlservice.models.task import SPIDER, user_key

MAX_REASON = 500  # characters of the reason for which a spider is disabled


class DisabledSpider(models.Model):
    """A spider that is not started. There is a row only while it is disabled."""

    spider = models.CharField(_("spider"), max_length=SPIDER, unique=True)
    reason = models.CharField(_("reason"), max_length=MAX_REASON)
    # Without a constraint: an older process deletes users without knowing this table.
    user = user_key(_("user"), db_index=False, db_constraint=False)
    created_at = models.DateTimeField(_("disabled at"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("disabled spider")
        verbose_name_plural = _("disabled spiders")
        ordering = ("spider",)

    def __str__(self) -> str:
        return self.spider


class Recipe(models.Model):
    """The present state of a recipe. ``text``: of its latest version, so that nodes read one
    row."""

    name = models.CharField(_("name"), max_length=SPIDER, unique=True)
    number = models.PositiveIntegerField(_("version"), default=1, editable=False)
    text = models.TextField(_("text"), editable=False, help_text=_("JSON"))
    changed_at = models.DateTimeField(_("changed"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("recipe")
        verbose_name_plural = _("recipes")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class RecipeVersion(models.Model):
    """A version of a recipe, as a person saved it."""

    recipe = models.ForeignKey(
        Recipe, models.CASCADE, related_name="versions", verbose_name=_("recipe")
    )
    number = models.PositiveIntegerField(_("version"))
    text = models.TextField(_("text"))
    user = user_key(_("user"), db_index=False)
    name = models.CharField(
        _("user name"), max_length=150, blank=True, default="", db_default="",
        help_text=_("of the user at that time"),
    )  # fmt: skip
    restored = models.PositiveIntegerField(
        _("restored version"), null=True, blank=True, help_text=_("if it repeats an older one")
    )
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("version of a recipe")
        verbose_name_plural = _("versions of recipes")
        ordering = ("-number",)
        constraints = (
            models.UniqueConstraint(fields=("recipe", "number"), name="recipe_version_once"),
        )

    def __str__(self) -> str:
        return f"{self.recipe} {self.number}"
