"""The keys that sign requests, and the credentials of hosts."""

from __future__ import annotations

import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("crawlservice", "0020_hosts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="BotKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(help_text="JWK thumbprint", max_length=43, unique=True)),
                ("public", models.CharField(help_text="as the JWK has it in x", max_length=43)),
                ("sealed_private", models.TextField(editable=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("starts_at", models.DateTimeField(help_text="when it begins to sign")),
                (
                    "retired_at",
                    models.DateTimeField(help_text="since when it is not published", null=True),
                ),
            ],
            options={
                "verbose_name": "key",
                "verbose_name_plural": "keys",
                "ordering": ("starts_at", "pk"),
            },
        ),
        migrations.CreateModel(
            name="HostCredential",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "host",
                    models.CharField(
                        help_text="such as www.example.com, with its port if that is not the usual one; *.example.com: all hosts below that domain",
                        max_length=255,
                        unique=True,
                        verbose_name="host",
                    ),
                ),
                (
                    "scheme",
                    models.CharField(
                        choices=[("basic", "basic"), ("digest", "digest"), ("bearer", "bearer")],
                        default="basic",
                        max_length=6,
                        verbose_name="scheme",
                    ),
                ),
                (
                    "user",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="empty for bearer, which has only a token",
                        max_length=255,
                        verbose_name="user name",
                    ),
                ),
                ("sealed_secret", models.TextField(editable=False)),
                (
                    "http",
                    models.BooleanField(
                        default=False,
                        help_text="also sent unencrypted, where others can read it",
                        verbose_name="also over http",
                    ),
                ),
                (
                    "note",
                    models.CharField(blank=True, default="", max_length=200, verbose_name="note"),
                ),
                ("changed_at", models.DateTimeField(auto_now=True, verbose_name="changed")),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        editable=False,
                        help_text="empty: a command",
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="last changed by",
                    ),
                ),
            ],
            options={
                "verbose_name": "credential",
                "verbose_name_plural": "credentials",
                "ordering": ("host",),
            },
        ),
    ]
