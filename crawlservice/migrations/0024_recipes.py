"""Spiders without code that are made in the admin, and their versions."""

from __future__ import annotations

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0023_usage"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Recipe",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100, unique=True, verbose_name="name")),
                (
                    "number",
                    models.PositiveIntegerField(default=1, editable=False, verbose_name="version"),
                ),
                ("text", models.TextField(editable=False, help_text="JSON", verbose_name="text")),
                (
                    "changed_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                        verbose_name="changed",
                    ),
                ),
            ],
            options={
                "verbose_name": "recipe",
                "verbose_name_plural": "recipes",
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="RecipeVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField(verbose_name="version")),
                ("text", models.TextField(verbose_name="text")),
                (
                    "name",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="of the user at that time",
                        max_length=150,
                        verbose_name="user name",
                    ),
                ),
                (
                    "restored",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="if it repeats an older one",
                        null=True,
                        verbose_name="restored version",
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="created"
                    ),
                ),
                (
                    "recipe",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="versions",
                        to="crawlservice.recipe",
                        verbose_name="recipe",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "version of a recipe",
                "verbose_name_plural": "versions of recipes",
                "ordering": ("-number",),
                "constraints": [
                    models.UniqueConstraint(fields=("recipe", "number"), name="recipe_version_once")
                ],
            },
        ),
    ]
