"""Layer files: the pages of a task and the links that they led to, in one file for each layer and
part. The part of a page is a hash of its registered domain, so that the pages of a domain are
together."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from uuid import UUID

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.public_suffixes import registered_domain
from crawlframe.base.urls import hostname_of
from crawlframe.request.request import END_URL, ROOT_URL, unpack_admissions
from crawlservice.models import KeptPage, Page, Task
from crawlservice.pages.bodies import batches, read
from crawlservice.pages.page_viewer import ShownPage
from crawlservice.tasks.results.export import ExportError, unwritable
from crawlservice.tasks.results.task_rows import of_task

ROWS = 500  # pages in memory at a time, and links that are looked up at a time
BODIES = 16  # pages in memory at a time, with their bodies
LISTS = 20  # pages whose links are read at a time: each may lead to very many
FILES = 200  # files that are open at a time
MAX_PARTS = 10_000
PAGES, LINKS = "pages", "links"
# The names of the files, and of their drafts.
OURS = re.compile(
    rf"layer-[0-9]+-part-[0-9]+\.({PAGES}|{LINKS})\.jsonl"
    rf"|\.layer-[0-9]+-part-[0-9]+\.({PAGES}|{LINKS})\.jsonl\.part"
)
# There while files are replaced. It stays if that fails or is killed.
UNFINISHED = "layers-UNFINISHED.txt"
UNFINISHED_TEXT = """\
Files of two runs of `task layers` may be mixed in this directory: the second one is replacing
those of the first, or was stopped while it did. If none runs now, run it again.
"""


class Written(NamedTuple):
    """The numbers of written pages, links and files, and of removed files of an earlier run."""

    pages: int
    links: int
    files: int
    removed: int


def export(
    task: Task,
    directory: Path,
    parts: int,
    *,
    html: bool = False,
    each: Callable[[int], object] = lambda _: None,
) -> Written:
    """Writes ``layer-<n>-part-<p>.pages.jsonl`` and ``.links.jsonl`` of each layer and part that
    has some to a directory, which is made if it is missing. When all are complete, they replace
    the files of an earlier run: those with such names that this run did not write are removed, of
    whatever task they are. ``html``: pages have the text that is kept of them. ``each`` is called
    with 1 for each page. Raises ExportError, PageDamaged, ArchiveError and django.db.Error."""
    if not 1 <= parts <= MAX_PARTS:
        raise ExportError(f"--parts is {parts}; it must be from 1 to {MAX_PARTS:,}")
    files = _Files(directory, len(str(parts - 1)))
    pages = links = 0
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with closing(_Targets()) as targets:
            for some, texts in _rows(task, html):
                for row in some:
                    part = part_of(row.url, parts)
                    files.write(row.depth, part, PAGES, _page(row, texts.get(row.rid)))
                    pages += 1
                    each(1)
                for row, link in _links(some, targets):
                    part = part_of(row.url, parts)
                    files.write(row.depth, part, LINKS, {"from": row.url, "to": link})
                    links += 1
        count, removed = files.finish()
    except OSError as error:
        raise unwritable(directory, error) from None
    except sqlite3.Error as error:
        raise ExportError(
            f"SQLite cannot keep which links were written: {error}; it needs some 20 bytes a link "
            "in its temporary directory, which SQLITE_TMPDIR names"
        ) from None
    finally:
        files.discard()
    return Written(pages, links, count, removed)


def part_of(url: str, parts: int) -> int:
    """The part of a URL: the 8 bytes of the BLAKE2b of its registered domain as a number, modulo
    ``parts``."""
    digest = blake2b(registered_domain(hostname_of(url)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % parts


def _rows(task: Task, html: bool) -> Iterator[tuple[list[Page], dict[UUID, str]]]:
    """The pages in the order of their ends, some at a time, with their texts by rid if these are
    wanted and kept."""
    fields = ("rid", "task_id", "url", "state", "reason", "status", "depth")
    after, size = 0, BODIES if html else ROWS
    while some := [*of_task(Page.objects.only(*fields), task.pk, after=after)[:size]]:
        after = some[-1].pk
        pages = [row for row in some if not row.url.startswith((ROOT_URL, END_URL))]
        for rows in batches(_sized(pages), size) if html else [pages]:
            yield rows, _texts(rows) if html else {}


def _sized(rows: list[Page]) -> list[tuple[Page, int]]:
    """The pages, each with the bytes that are kept of it."""
    kept = KeptPage.objects.filter(rid__in=[row.rid for row in rows])
    sizes = dict(kept.values_list("rid", "body__size"))
    return [(row, sizes.get(row.rid, 0)) for row in rows]


def _texts(rows: list[Page]) -> dict[UUID, str]:
    kept = [*KeptPage.objects.filter(rid__in=[row.rid for row in rows]).defer("follow_ups")]
    bodies = read({one.body_id for one in kept})
    pages = [ShownPage(one, bodies[one.body_id]) for one in kept if one.body_id in bodies]
    return {one.page.rid: one.text for one in pages if one.kind != "binary"}


def _links(pages: list[Page], targets: _Targets) -> Iterator[tuple[Page, str]]:
    """The links of these pages that led to a page of the task, as (page, URL of the target).

    A row has the requests that it yielded, before limits of pages refused some of them, and before
    the requests of simultaneous pages were known: such a request has the depth of the page that
    came first. Of pages of one depth, the first row has the link."""
    led = _led_to(pages)
    while some := [*islice(led, ROWS)]:
        columns = ("rid", "task_id", "pk", "depth", "url")
        rows = Page.objects.filter(rid__in={rid for _, rid in some}).order_by()
        found = {row[0]: row[1:] for row in rows.values_list(*columns)}
        for page, rid in some:
            if rid not in found:
                continue
            task, number, depth, url = found[rid]
            if (task, depth) == (page.task_id, page.depth + 1) and targets.add(number):
                yield page, url


def _led_to(pages: list[Page]) -> Iterator[tuple[Page, UUID]]:
    """The requests that the pages yielded, as (page, rid of the request)."""
    for start in range(0, len(pages), LISTS):
        some = pages[start : start + LISTS]
        rows = Page.objects.filter(pk__in=[row.pk for row in some], follow_ups__isnull=False)
        lists = dict(rows.order_by().values_list("pk", "follow_ups"))
        for row in some:
            if (packed := lists.get(row.pk)) is not None:
                for one in unpack_admissions(packed):
                    yield row, UUID(bytes=one.rid)


def _page(row: Page, text: str | None) -> dict[str, Any]:
    page = {"url": row.url, "layer": row.depth, "state": _state(row), "status": row.status}
    if row.reason:
        page["reason"] = row.reason
    return page if text is None else {**page, "html": text}


def _state(row: Page) -> str:
    """The state as a task counts it. In the ledger, these are errors with a reason."""
    if row.is_excluded:
        return "excluded"
    return "cancelled" if row.is_cancelled else row.state


class _Targets:
    """The numbers of pages to which a link was written. In a temporary database, which SQLite
    moves to a file when it exceeds its cache of some MB: a task may have many millions."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("")  # removed by itself, even if this process is killed
        self._database.execute("CREATE TABLE target (number INTEGER PRIMARY KEY)")

    def add(self, number: int) -> bool:
        """Returns whether it is new."""
        insert = "INSERT OR IGNORE INTO target VALUES (?)"
        return self._database.execute(insert, (number,)).rowcount == 1

    def close(self) -> None:
        self._database.close()


class _Files:
    """Files that appear when all are complete. Of many, only the ones used last are open."""

    def __init__(self, directory: Path, digits: int) -> None:
        self._directory = directory
        self._digits = digits
        self._open: BoundedDict[Path, BinaryIO] = BoundedDict(FILES, lambda _, file: file.close())
        self._targets: dict[Path, Path] = {}  # by draft

    def write(self, layer: int, part: int, kind: str, row: dict[str, Any]) -> None:
        name = f"layer-{layer}-part-{part:0{self._digits}}.{kind}.jsonl"
        draft = self._directory / f".{name}.part"
        file = self._open.pop(draft, None)
        if file is None:
            file = draft.open("ab" if draft in self._targets else "wb")
            self._targets[draft] = self._directory / name
        self._open[draft] = file
        file.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def finish(self) -> tuple[int, int]:
        """Puts the files in place, and removes files of an earlier run. Returns how many of each.
        Raises OSError, and ExportError if files of both runs are left."""
        self._close()
        written = {target.name for target in self._targets.values()}
        before = {path for path in self._directory.iterdir() if OURS.fullmatch(path.name)}
        before -= self._targets.keys()
        mark = self._directory / UNFINISHED
        mark.write_text(UNFINISHED_TEXT)
        try:
            for draft, target in self._targets.items():
                draft.replace(target)
            old = [path for path in before if path.name not in written]
            for path in old:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise ExportError(
                f"{self._directory} may have files of this run and of an earlier one: {error}. "
                "Remove the obstacle and run the command again, or name another --dir"
            ) from None
        mark.unlink()
        self._targets.clear()
        return len(written), sum(path.suffix == ".jsonl" for path in old)

    def discard(self) -> None:
        self._close()
        for draft in self._targets:
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    def _close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
