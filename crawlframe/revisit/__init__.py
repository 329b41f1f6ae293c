"""Revisit: when the pages of a spider are visited again, and which changes of a page count."""

from crawlframe.revisit.declared import Revisit

__all__ = ("Revisit",)
