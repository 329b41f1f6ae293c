"""Prompts in a terminal, for a page in the browser and for a paused callback."""

from crawlframe.shell.shell import inspect as inspect
