"""The admin: tasks with their progress and actions; watches, schedules, recipes, webhooks and
exports; alerts, their rules, targets and messages; pages, items, hosts, nodes, robots.txt, events,
eras and the journal, read-only; rows on their way to other databases; users with their roles;
tokens; credentials of hosts; proxies; rules of aliases."""

from crawlservice.admin import (
    alertmessages,
    alertrules,
    alerts,
    alerttargets,
    aliases,
    credentials,
    deliveries,
    exports,
    hosts,
    items,
    journal,
    keptpages,
    ledger,
    nodes,
    people,
    proxies,
    recipes,
    robots,
    rowdeliveries,
    runs,
    schedules,
    tasks,
    tokens,
    watches,
    webhooks,
)  # fmt: skip

__all__ = (
    "alertmessages", "alertrules", "alerts", "alerttargets", "aliases", "credentials", "deliveries",
    "exports",
    "hosts", "items", "journal", "keptpages", "ledger", "nodes", "people", "proxies", "recipes",
    "robots", "rowdeliveries", "runs", "schedules", "tasks", "tokens", "watches", "webhooks",
)  # fmt: skip
