"""TaskView: a task as one page shows it."""

from __future__ import annotations

from functools import cached_property

from crawlservice.models import Task
from crawlservice.tasks.progress.progress import Progress, read


class TaskView:
    """The progress is read once, for the first part of the page that needs it."""

    def __init__(self, task: Task) -> None:
        self.task = task

    @cached_property
    def progress(self) -> Progress:
        return read([self.task])[0]
