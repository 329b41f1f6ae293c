"""task: crawls that were submitted."""

from __future__ import annotations

from crawlservice.cli.noun import Noun


class Command(Noun):
    verbs = {
        "list": "crawlservice.cli.task.table.ListTasks",
        "show": "crawlservice.cli.task.view.ShowTask",
        "set": "crawlservice.cli.task.steering.SetTask",
        "pause": "crawlservice.cli.task.steering.PAUSE",
        "resume": "crawlservice.cli.task.steering.RESUME",
        "cancel": "crawlservice.cli.task.steering.CANCEL",
        "retry": "crawlservice.cli.task.steering.RetryErrors",
        "reparse": "crawlservice.cli.task.steering.Reparse",
        "export": "crawlservice.cli.task.results.ExportItems",
        "layers": "crawlservice.cli.task.results.ExportLayers",
        "prune": "crawlservice.cli.task.results.PruneTasks",
    }
