"""Filling: a database as it is after years of crawling, filled by PostgreSQL itself.

In the first half of the time three of ten pages were of one task, which did nothing since. Ten
other large tasks came one after another, with three of ten pages too; the rest is of many small
ones. An error is one page in fifty of the small ones and one in thirty of the largest; the other
large ones have none. Each page that is no error has an item."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import psycopg2

LARGE = 11  # tasks; the first is the largest
PAUSED = 20  # tasks that have not ended: the large ones are among them
SPIDERS = 30
STEP = 500_000  # rows of one statement
DAY = 86_400  # seconds


class Size(NamedTuple):
    """Numbers of rows."""

    pages: int
    tasks: int


# Of page number i.
ERROR = "(i %% 50 = 7 OR i %% 100 = 1 AND i < %(pages)s / 2)"
TASK_OF = f"""CASE WHEN i %% 10 < 3 AND i < %(pages)s / 2 THEN 1
WHEN i %% 10 BETWEEN 3 AND 5 THEN 2 + i * {LARGE - 1} / (%(pages)s + 1)
ELSE {LARGE} + 1 + i * (%(tasks)s - {LARGE}) / (%(pages)s + 1) END"""
AT = "now() - make_interval(secs => 30 * {day} * (1 - {i}::float / %({total})s))"

TASKS = rf"""
INSERT INTO crawlservice_task (spider, arguments, priority, settings, state, seeds, created_at,
    finished_at, na, nf, ne, items, retries, user_id)
SELECT 'shop' || t %% {SPIDERS}, jsonb_build_object('city', 'Ulm', 'number', t), 0,
    '{{"delay": 1000, "concurrency": 8, "page_limit": 0}}',
    CASE WHEN t <= {PAUSED} THEN 'paused' WHEN t %% 50 = 0 THEN 'cancelled' ELSE 'finished' END,
    '\x90'::bytea, made, CASE WHEN t > {PAUSED} THEN made + interval '20 min' END, 0, 0, 0, 0, 0,
    1 + t %% 20
FROM (SELECT t, {AT.format(day=DAY, i="t", total="tasks")} AS made
    FROM generate_series(1, %(tasks)s) t) task
"""
NUMBERS = """
UPDATE crawlservice_task SET na = n, nf = n - errors, ne = errors, items = n - errors,
    outcome = CASE WHEN finished_at IS NULL THEN '' WHEN state = 'cancelled' THEN 'cancelled'
    WHEN 2 * errors > n THEN 'failed' WHEN errors > 0 THEN 'finished_with_errors'
    ELSE 'finished' END
FROM (SELECT task_id, count(*) AS n, count(*) FILTER (WHERE state = 'error') AS errors
    FROM crawlservice_page GROUP BY task_id) done WHERE id = task_id
"""
PAGES = f"""
INSERT INTO crawlservice_page (rid, task_id, url, callback, state, reason, detail, status, depth,
    attempts, deliveries, size, fetch_ms, items, version, created_at, follow_ups, request,
    error_group)
SELECT md5(i::text)::uuid, {TASK_OF},
    'https://shop' || i %% 300 || '.example/list/' || md5(i::text) || '?page=' || i, 'parse',
    CASE WHEN {ERROR} THEN 'error' ELSE 'done' END,
    CASE WHEN {ERROR} THEN (ARRAY['HTTP 404', 'HTTP 500', 'timeout', 'ValueError'])[1 + i %% 4]
         ELSE '' END,
    CASE WHEN {ERROR} THEN repeat('  File "spiders/shop.py", line 12, in parse' || chr(10), 8)
         ELSE '' END,
    CASE WHEN NOT {ERROR} THEN 200 WHEN i %% 4 = 0 THEN 404 WHEN i %% 4 = 1 THEN 500 END,
    i %% 7, 1, 1, 20000 + i %% 9000, 50 + i * 7919 %% 900, CASE WHEN {ERROR} THEN 0 ELSE 1 END,
    'c0ffee' || i / 100000, {AT.format(day=DAY, i="i", total="pages")},
    CASE WHEN i %% 10 = 4 THEN decode(repeat(md5(i::text), 16), 'hex') END,
    CASE WHEN {ERROR} THEN decode(repeat(md5(i::text), 8), 'hex') END,
    CASE WHEN {ERROR} THEN 1 + i %% 4 + 4 * (({TASK_OF}) %% {SPIDERS}) END
FROM generate_series(%(first)s::bigint, %(last)s) i
"""
ITEMS = f"""
INSERT INTO crawlservice_item (task_id, rid, ordinal, data, version, created_at)
SELECT {TASK_OF}, md5(i::text)::uuid, 0,
    jsonb_build_object('name', 'Thing ' || md5(i::text), 'price', i %% 1000 / 10.0, 'stock', i %% 9,
    'url', 'https://shop' || i %% 300 || '.example/thing/' || i, 'tags', ARRAY['red', 'cheap']),
    'c0ffee' || i / 100000, {AT.format(day=DAY, i="i", total="pages")}
FROM generate_series(%(first)s::bigint, %(last)s) i WHERE NOT {ERROR}
"""
USERS = """
INSERT INTO auth_user (username, password, first_name, last_name, email, is_staff, is_active,
    is_superuser, date_joined)
SELECT 'user' || n, '!', '', '', '', true, true, false, now() FROM generate_series(1, 20) n
"""
# Further tables: an event and an entry of the journal for each task, and so on.
BESIDE = (
    """INSERT INTO crawlservice_event (task_id, kind, outcome, created_at, delivered_at)
    SELECT id, CASE WHEN outcome IN ('failed', 'cancelled') THEN outcome ELSE 'finished' END,
    outcome, finished_at, finished_at FROM crawlservice_task
    WHERE finished_at IS NOT NULL ORDER BY id""",
    """INSERT INTO crawlservice_webhook (name, url, secret, spider, kinds, enabled)
    SELECT 'hook' || n, 'https://hook.example/' || n, md5(n::text), '', '[]', true
    FROM generate_series(1, 2) n""",
    """INSERT INTO crawlservice_delivery (webhook_id, event_id, attempts, next_at, delivered_at,
    problem) SELECT w.id, e.id, 1, NULL, e.created_at, ''
    FROM crawlservice_event e, crawlservice_webhook w ORDER BY e.id""",
    """INSERT INTO crawlservice_action (at, user_id, name, verb, task_id, detail)
    SELECT created_at, user_id, 'user', 'submit', id, arguments FROM crawlservice_task
    ORDER BY id""",
    f"""INSERT INTO crawlservice_schedule (name, spider, arguments, priority, cron, every, timezone,
    overlap, missed, enabled, created_at, next_at)
    SELECT 'daily ' || n, 'shop' || n %% {SPIDERS}, '{{}}', 0, '0 6 * * *', NULL, 'UTC', 'skip',
    'once', true, now(), now() + interval '1 day' FROM generate_series(1, 200) n""",
    """INSERT INTO crawlservice_run (schedule_id, due_at, outcome, task_id, problem, created_at)
    SELECT 1 + id %% 200, created_at, 'submitted', id, '', created_at
    FROM crawlservice_task ORDER BY id""",
    """INSERT INTO crawlservice_token (user_id, name, start, digest, scopes, created_at)
    SELECT 1 + n %% 20, 'program ' || n, 'cf_' || n, md5(n::text) || md5(n::text), '["read"]', now()
    FROM generate_series(1, 100) n""",
    """INSERT INTO crawlservice_generation (node, machine, pid, started_at)
    SELECT 'node' || n %% 10, 'machine' || n %% 10, n, now() FROM generate_series(1, 2000) n""",
    f"""INSERT INTO crawlservice_errorgroup (id, spider, reason, exception, place, first_version,
    created_at) SELECT 1 + r + 4 * s, 'shop' || s,
    (ARRAY['HTTP 404', 'HTTP 500', 'timeout', 'ValueError'])[1 + r], '', '', 'c0ffee0', now()
    FROM generate_series(0, 3) r, generate_series(0, {SPIDERS - 1}) s""",
    """INSERT INTO crawlservice_label (task_id, name, value)
    SELECT id, 'team', 'team' || id %% 7 FROM crawlservice_task""",
    """INSERT INTO crawlservice_alert (kind, subject, severity, facts, labels, since,
    resolved_at)
    SELECT 'task_failed', n::text, 3, jsonb_build_object('task', n), '{}', now(),
    CASE WHEN n > 100 THEN now() END FROM generate_series(1, 20000) n""",
    """INSERT INTO crawlservice_export (name, what, target, paused, changed, run, position, columns,
    rows, batches, attempts, labels, fields, from_file, listed, problem, last_batch, sealed, spider,
    usage) SELECT 'all ' || n, 'items', '{"kind": "files", "url": "all"}', true, 0, 1, 0, '[]', 0,
    0, 0, '{}', '[]', false, true, '', '', '', '', '' FROM generate_series(1, 10) n""",
    # A sample of the cluster every 10 seconds for a week, 360 of each large task.
    """INSERT INTO crawlservice_sample (at, task_id, nf, ne, items, ready, in_progress, delayed,
    parked) SELECT now() - make_interval(secs => 604800 - 10 * n), NULL, 700 * n, 14 * n, 686 * n,
    9000, 64, 12, 0 FROM generate_series(0, 60480) n""",
    f"""INSERT INTO crawlservice_sample (at, task_id, nf, ne, items, ready, in_progress, delayed,
    parked) SELECT now() - make_interval(secs => 2592000 - 7200 * n), t, 800 * n, 16 * n, 784 * n,
    900, 6, 1, 0 FROM generate_series(1, 359) n, generate_series(1, {LARGE}) t""",
)


def fill(dsn: str, size: Size, progress: Callable[[str], None]) -> None:
    """Fills a migrated, empty database and leaves it as autovacuum would."""
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("SET synchronous_commit = off")
        cursor.execute(USERS)
        cursor.execute(TASKS, size._asdict())
        for first in range(1, size.pages + 1, STEP):
            words = {**size._asdict(), "first": first, "last": min(first + STEP - 1, size.pages)}
            cursor.execute(PAGES, words)
            cursor.execute(ITEMS, words)
            progress(f"{words['last']:,} of {size.pages:,} pages written")
        for statement in (NUMBERS, *BESIDE):
            cursor.execute(statement, {})
        cursor.execute("VACUUM ANALYZE")
