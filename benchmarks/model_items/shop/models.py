"""The tables of the benchmark."""

from __future__ import annotations

from django.db import models


class Offer(models.Model):
    """An item of an ordinary shop: eight columns."""

    url = models.TextField(unique=True)
    name = models.TextField()
    price = models.DecimalField(max_digits=10, decimal_places=2)
    currency = models.CharField(max_length=3)
    stock = models.IntegerField()
    brand = models.TextField()
    text = models.TextField()
    seen_at = models.DateTimeField()

    class Meta:
        app_label = "shop"

    def __str__(self) -> str:
        return self.url
