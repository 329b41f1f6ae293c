"""Revisit: when the pages of a spider are visited again, and what counts as a change of one."""

from crawlframe.revisit.declared import Revisit

__all__ = ("Revisit",)
