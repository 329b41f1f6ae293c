"""Places: the addresses of the service that users and programs open, by their content."""

from __future__ import annotations

from benchmarks.service.filling import LARGE, Size

ADMIN = "/admin/crawlservice"
OLD = "c0ffee1"  # a version that made none of the latest pages


def places(size: Size, middle: int) -> dict[str, str]:
    """name -> address. ``middle``: number of a ledger row and of an item far from the newest."""
    last, small = size.tasks, size.tasks // 2
    lists = {
        f"list of {name}": f"{ADMIN}/{name}/"
        for name in (
            "task", "schedule", "item", "page", "generation", "event", "webhook", "delivery", "era",
            "token", "action", "run",
        )
    }  # fmt: skip
    return {
        "dashboard": "/admin/",
        "dashboard: now": "/admin/overview/",
        "dashboard: hosts": "/admin/overview/hosts/",
        "dashboard: chart of an hour": "/admin/overview/chart/?span=hour",
        "dashboard: chart of a day": "/admin/overview/chart/?span=day",
        "submit": "/admin/submit/",
        "submit a spider": "/admin/submit/?spider=brief",
        **lists,
        "tasks: second half": f"{ADMIN}/task/?before={small}",
        "tasks: of a spider": f"{ADMIN}/task/?spider=shop7",
        "tasks: that are paused": f"{ADMIN}/task/?state__exact=paused",
        "tasks: found by number": f"{ADMIN}/task/?q={small}",
        "pages: far down": f"{ADMIN}/page/?before={middle}",
        "pages: dead letters": f"{ADMIN}/page/?state__exact=error",
        "pages: of a spider": f"{ADMIN}/page/?spider=shop7",
        "pages: of a reason": f"{ADMIN}/page/?reason=timeout",
        "pages: of a version long ago": f"{ADMIN}/page/?version={OLD}",
        "pages: of the largest task": f"{ADMIN}/page/?task=1",
        "pages: errors of the largest task": f"{ADMIN}/page/?task=1&state__exact=error",
        "pages: of the largest task, of a version": f"{ADMIN}/page/?task=1&version={OLD}",
        "pages: of a small task": f"{ADMIN}/page/?task={small}",
        "pages: found by URL": f"{ADMIN}/page/?q=page%3D{size.pages - 1}",
        "pages: not found by URL": f"{ADMIN}/page/?q=nowhere",
        "page": f"{ADMIN}/page/{middle}/change/",
        "items: far down": f"{ADMIN}/item/?before={middle}",
        "items: of a spider": f"{ADMIN}/item/?spider=shop7",
        "items: of a version long ago": f"{ADMIN}/item/?version={OLD}",
        "items: of the largest task": f"{ADMIN}/item/?task=1",
        "items: found by text": f"{ADMIN}/item/?q=thing%2F{size.pages - 1}",
        "items: not found by text": f"{ADMIN}/item/?q=nowhere",
        "items: not found by field": f"{ADMIN}/item/?q=name:nowhere",
        "items: not found in the largest task": f"{ADMIN}/item/?task=1&q=nowhere",
        "item": f"{ADMIN}/item/{middle}/change/",
        "largest task": f"{ADMIN}/task/1/change/",
        "largest task: now": f"{ADMIN}/task/1/now/",
        "largest task: summary": f"{ADMIN}/task/1/summary/",
        "largest task: chart": f"{ADMIN}/task/1/chart/",
        "large task of long ago": f"{ADMIN}/task/2/change/",
        "pages: of that task": f"{ADMIN}/page/?task=2",
        "items: of that task": f"{ADMIN}/item/?task=2",
        "large task of now": f"{ADMIN}/task/{LARGE}/change/",
        "small task": f"{ADMIN}/task/{small}/change/",
        "last task": f"{ADMIN}/task/{last}/change/",
        "schedule": f"{ADMIN}/schedule/1/change/",
        "runs of a schedule": f"{ADMIN}/run/?schedule__id__exact=1",
        "webhook": f"{ADMIN}/webhook/1/change/",
        "deliveries that wait": f"{ADMIN}/delivery/?state=waiting",
        "journal of a user": f"{ADMIN}/action/?user=1",
        "journal of a verb": f"{ADMIN}/action/?verb=submit",
        "users": "/admin/auth/user/",
        "API: tasks": "/api/v1/tasks",
        "API: tasks that are paused": "/api/v1/tasks?state=paused",
        "API: tasks of a spider": "/api/v1/tasks?spider=shop7",
        "API: largest task": "/api/v1/tasks/1",
        "API: items of the largest task": "/api/v1/tasks/1/items",
        "API: its items, far down": f"/api/v1/tasks/1/items?after={middle // 2}",
        "API: its pages": "/api/v1/tasks/1/pages",
        "API: its errors": "/api/v1/tasks/1/pages?state=error",
        "API: pages of the large task of now": f"/api/v1/tasks/{LARGE}/pages",
        "API: its errors, of which there are none": f"/api/v1/tasks/{LARGE}/pages?state=error",
        "API: spiders": "/api/v1/spiders",
        "API: nodes": "/api/v1/nodes",
        "API: schedules": "/api/v1/schedules",
        "readiness": "/readyz",
        "metrics": "/metrics",
    }
