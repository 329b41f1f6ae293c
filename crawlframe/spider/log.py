"""SpiderLog: ``self.log`` of a spider."""

from __future__ import annotations

import logging
from typing import Any

from crawlframe.base.stats import RUNNING, Owner


class SpiderLog(logging.LoggerAdapter[logging.Logger]):
    """The logger ``spider.NAME``. Messages start with the task and the URL of the running request;
    handlers find ``task``, ``spider``, ``url`` and ``rid`` in the record."""

    def __init__(self, spider: str, owner: Owner) -> None:
        super().__init__(logging.getLogger(f"spider.{spider}"))
        self._spider = spider
        self._owner = owner

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if not self.isEnabledFor(level):
            return
        running, task = RUNNING.get(None), self._owner._task
        url, rid = (running.url, running.rid.hex()) if running else ("", "")
        about = {"spider": self._spider, "task": task, "url": url, "rid": rid}
        kwargs["extra"] = about | (kwargs.get("extra") or {})
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # this method is not the caller
        before = " ".join(filter(None, (f"task {task}" if task else "", url)))
        if args:
            before = before.replace("%", "%%")
        self.logger.log(level, f"{before}: {msg}" if before else msg, *args, **kwargs)
