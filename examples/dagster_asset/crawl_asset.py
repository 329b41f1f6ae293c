"""Assets of Dagster that are made by spiders."""

import time
from typing import Any

import requests
from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    ConfigurableResource,
    Definitions,
    EnvVar,
    Failure,
    MaterializeResult,
    asset,
)


class Crawlframe(ConfigurableResource):
    """``url``: the address of the web. ``token``: of scope submit. ``poll``: seconds."""

    url: str
    token: str
    poll: float = 15.0

    def call(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Raises requests.RequestException if the web is away, and Failure if it refuses."""
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        url = f"{self.url}/api/v1/{path}"
        answer = requests.request(method, url, headers=headers, timeout=30, **more)
        if answer.status_code >= 500:
            raise requests.ConnectionError(f"{path}: status {answer.status_code}")
        found: dict[str, Any] = answer.json()
        if not answer.ok:
            raise Failure(found["error"]["message"], allow_retries=False)
        return found


def crawled(name: str, spider: str, arguments: dict[str, Any] | None = None) -> AssetsDefinition:
    """An asset of this name: the items of a crawl. Each run of Dagster submits once."""

    @asset(name=name, kinds={"crawlframe"})
    def made(context: AssetExecutionContext, crawlframe: Crawlframe) -> MaterializeResult[None]:
        key = {"Idempotency-Key": f"{context.run_id}/{name}"}
        wanted = {"spider": spider, "arguments": arguments or {}}
        task = crawlframe.call("POST", "tasks", json=wanted, headers=key)
        if task["outcome"] == "failed":  # a further try: what failed runs again
            crawlframe.call("POST", f"tasks/{task['id']}/retry")
            task["outcome"] = ""
        while not task["outcome"]:
            time.sleep(crawlframe.poll)
            try:
                task = crawlframe.call("GET", f"tasks/{task['id']}")
            except requests.RequestException as error:  # the crawl continues
                context.log.warning(str(error))
        if task["outcome"] in ("failed", "cancelled"):
            raise Failure(f"task {task['id']} {task['outcome']}: {task['reason']}")
        names = ("id", "outcome", "nf", "ne", "items")
        return MaterializeResult(metadata={name: task[name] for name in names})

    return made


definitions = Definitions(
    assets=[crawled("quotes", "quotes")],
    resources={
        "crawlframe": Crawlframe(url=EnvVar("CRAWLFRAME_URL"), token=EnvVar("CRAWLFRAME_TOKEN"))
    },
)
