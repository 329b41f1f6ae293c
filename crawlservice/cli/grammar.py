"""Grammar of the commands: their words, with one line each. It imports nothing, because shells ask
for it at each completion."""

from __future__ import annotations

from difflib import get_close_matches

# Words at the top level, by their users' activity.
GROUPS = {
    "Write": {
        "startproject": "make a project with a first spider and its test",
        "startspider": "write a spider to start from, and its test",
        "fetch": "fetch one page as a node would; with --shell, a prompt with it",
        "parse": "fetch one page, and show the results of a callback",
        "check": "load all spiders, show their errors; then Django's checks",
        "preview": "what a change of the code does to the data, on kept pages",
    },
    "Run": {
        "crawl": "a whole crawl on this machine: submit, run, show, export",
        "submit": "start a task that the running nodes crawl",
        "runcrawler": "run a node",
        "up": "run the web, one node and Redis until Ctrl-C",
        "schedule": "tasks that start by the clock",
        "watch": "pages that are visited again when they may have changed",
    },
    "Look": {
        "top": "the whole cluster, live in the terminal",
        "task": "crawls that were submitted: show, steer, retry, export, prune",
        "spider": "spiders and their last runs; record pages for tests",
        "page": "kept pages: show one, export many",
        "export": "continuous exports, and how far each is",
    },
    "Repair": {
        "alert": "problems that need a person; where they are reported",
        "host": "hosts that are crawled, and orders that hold for them",
        "proxy": "the pool of proxies",
        "alias": "rules that make several URLs one page",
        "node": "nodes of the cluster, and the code that each runs",
    },
    "Administer": {
        "config": "settings, and where each comes from",
        "store": "database, Redis, files and caches: check, repair, take over",
        "credential": "secrets for hosts, and keys that sign requests",
        "token": "tokens of the API, and the link for the first administrator",
    },
}
VERBS = {
    "task": {
        "list": "list tasks, the latest first",
        "show": "show one task, or its log; --follow: until it ends",
        "set": "change the limits of a task while it runs",
        "pause": "stop fetching a task's requests until it is resumed",
        "resume": "resume a paused task, and try parked requests again",
        "cancel": "end a task without fetching its remaining requests",
        "retry": "run the failed requests of a task, or of a spider, again",
        "reparse": "parse kept pages by the code of today, and replace their items",
        "export": "write the items of a task to a file",
        "layers": "write the pages and links of a task by layer and domain",
        "prune": "delete old tasks with all their data",
    },
    "spider": {
        "list": "list spiders with their last runs",
        "show": "show one spider: arguments, settings, last run",
        "disable": "let nothing start a spider; its running tasks continue",
        "enable": "let a spider be started again",
        "record": "record pages of a spider as tests that need no network",
    },
    "schedule": {"list": "list schedules with their next times and last runs"},
    "watch": {
        "list": "list watches",
        "show": "show one watch, and the pages that are due next",
        "start": "start to watch the pages of a spider",
        "set": "change the budget of a watch",
        "pause": "make no rounds until it is resumed",
        "resume": "make rounds again",
        "end": "end a watch for ever; its pages stay in the database",
        "visit": "visit pages before all others; without a URL, run start",
    },
    "page": {
        "show": "show the newest kept page of a request or a URL",
        "export": "write kept pages to a WARC or WACZ file",
    },
    "export": {
        "list": "list continuous exports, with how far each is",
        "check": "check exports.toml of the spiders here",
    },
    "host": {
        "list": "list hosts, the latest first",
        "show": "show everything about one host",
        "pause": "fetch nothing of a host",
        "resume": "end a pause, and the rest of a host that refused or blocked",
        "set": "order a delay, a concurrency or hours for a host",
        "clear": "end the order for a host, pause included",
        "forget-robots": "fetch robots.txt of a host again",
    },
    "proxy": {
        "import": "add the proxies of a file, one in each line",
        "list": "list proxies, without their credentials",
        "check": "check proxies now",
        "delete": "delete the proxies with a URL, or with a tag",
    },
    "node": {
        "list": "list nodes: the code of each, and how its last reload went",
        "check": "exit with 1 if the node of this machine is not running",
        "forget": "remove an offline node from the list",
        "rollout": "bring all nodes that follow a branch to a revision",
        "accept": "let a version go live that was refused since it loses data",
        "refuse": "decide that a version that loses data does not go live",
    },
    "alert": {
        "list": "list open alerts",
        "ack": "acknowledge alerts",
        "cases": "list the causes of bad runs; with a number, show or decide one",
        "target": "make a target, to which alerts are sent",
        "test": "send a test message to a target",
        "default": "make the rule that reports everything to all targets",
    },
    "alias": {
        "list": "list the rules",
        "show": "show a rule with examples",
        "learn": "learn rules from kept pages, and verify them",
        "revoke": "do not use rules any more, nor learn them again",
        "forget": "delete rules, so that they may be learned again",
    },
    "config": {
        "show": "show each setting, its source and its rank; --changed: only changed ones",
    },
    "store": {
        "show": "show to which installation the database and Redis belong",
        "take-over": "make Redis belong to this database, and drop its data",
        "new-id": "give this database a new id, if it is a copy of another",
        "audit": "check that counters, queues, ledger and items agree",
        "reconcile": "bring Redis up to the state of the database",
        "reseal": "encrypt all secrets with the current CRAWLFRAME_SECRET_KEY",
        "quarantine": "list rows of Redis that could not be read",
        "clear-quarantine": "delete rows of Redis that could not be read",
        "check-files": "check whether all files that pages name are in the store",
        "prune-files": "delete files that no page names",
        "cache": "show the size of the cache of `crawl --cache`",
        "clear-cache": "delete all pages of the cache of `crawl --cache`",
    },
    "credential": {
        "list": "list the hosts that have a credential, without the secrets",
        "set": "store a credential; its secret is asked for, or read from stdin",
        "delete": "delete the credential of a host",
        "keys": "list the keys that sign requests (Web Bot Auth)",
        "create-key": "make the first key, which signs at once",
        "rotate-key": "make the next key, published before it signs",
        "retire-key": "take a key out of the directory, for ever",
    },
    "token": {
        "list": "list all tokens of the API",
        "add": "make a token of a user; it is shown once",
        "revoke": "revoke a token",
        "setup-link": "print the link for the first administrator",
    },
}
WORDS = {word: line for group in GROUPS.values() for word, line in group.items()}


def near(word: str, known: list[str]) -> str:
    """``; did you mean …?`` with the known word that is closest; "" if none is close."""
    found = get_close_matches(word, known, 1)
    return f"; did you mean {found[0]}?" if found else ""
