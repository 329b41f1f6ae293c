"""Layer files: the pages of a task and the links that they led to, in one file for each layer and
part. The part of a page is a hash of its registered domain, so that the pages of a domain are
together."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from crawlframe.charsets.encoding import encoding_of
from crawlframe.kinds import kind_of
from crawlframe.links import hostname_of
from crawlframe.public_suffixes import registered_domain
from crawlframe.record import read_head
from crawlframe.request import END_URL, ROOT_URL, unpack_admissions
from crawlservice.models import KeptPage, Page, Task
from crawlservice.pages.bodies import batches, read
from crawlservice.tasks.export import ExportError, unwritable
from crawlservice.tasks.task_rows import of_task

ROWS = 500  # pages in memory at a time
BODIES = 16  # the same, with their bodies
OPEN = 200  # files that are open at a time
MAX_PARTS = 10_000
PAGES, LINKS = "pages", "links"


class Written(NamedTuple):
    """How many pages and links were written, to how many files."""

    pages: int
    links: int
    files: int


def export(task: Task, directory: Path, parts: int, *, html: bool = False) -> Written:
    """Writes ``layer-<n>-part-<p>.pages.jsonl`` and ``.links.jsonl`` of each layer and part that
    has some to a directory, which is made if it is missing. Files with these names are replaced,
    when all are complete. ``html``: pages have the text that is kept of them. Raises ExportError,
    PageDamaged, ArchiveError and django.db.Error."""
    if not 1 <= parts <= MAX_PARTS:
        raise ExportError(f"--parts is {parts}; it must be from 1 to {MAX_PARTS:,}")
    files = _Files(directory, len(str(parts - 1)))
    pages = links = 0
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for row, text in _rows(task, html):
            part = part_of(row.url, parts)
            files.write(row.depth, part, PAGES, _page(row, text))
            pages += 1
            for link in _links(row):
                files.write(row.depth, part, LINKS, {"from": row.url, "to": link})
                links += 1
        count = files.finish()
    except OSError as error:
        raise unwritable(directory, error) from None
    finally:
        files.discard()
    return Written(pages, links, count)


def part_of(url: str, parts: int) -> int:
    """The part of a URL: the 8 bytes of the BLAKE2b of its registered domain as a number, modulo
    ``parts``."""
    digest = blake2b(registered_domain(hostname_of(url)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % parts


def _rows(task: Task, html: bool) -> Iterator[tuple[Page, str | None]]:
    """The pages, in the order in which they ended, with their text if it is wanted and kept."""
    fields = ("rid", "task_id", "url", "state", "reason", "status", "depth", "follow_ups")
    after, size = 0, BODIES if html else ROWS
    while some := [*of_task(Page.objects.only(*fields), task.pk, after=after)[:size]]:
        after = some[-1].pk
        for rows in batches(_sized(some), size) if html else [some]:
            texts = _texts(rows) if html else {}
            for row in rows:
                if not row.url.startswith((ROOT_URL, END_URL)):
                    yield row, texts.get(row.rid)


def _sized(rows: list[Page]) -> list[tuple[Page, int]]:
    """The pages, each with the bytes that are kept of it."""
    kept = KeptPage.objects.filter(rid__in=[row.rid for row in rows])
    sizes = dict(kept.values_list("rid", "body__size"))
    return [(row, sizes.get(row.rid, 0)) for row in rows]


def _texts(rows: list[Page]) -> dict[Any, str]:
    kept = [*KeptPage.objects.filter(rid__in=[row.rid for row in rows]).defer("follow_ups")]
    bodies = read({one.body_id for one in kept})
    found = {one.rid: _text(one, bodies[one.body_id]) for one in kept if one.body_id in bodies}
    return {rid: text for rid, text in found.items() if text is not None}


def _text(page: KeptPage, body: bytes) -> str | None:
    """None: it is no text."""
    received = page.headers.get("received") or []
    type_ = next((value for name, value in received if name.lower() == "content-type"), "")
    kind = kind_of(type_.partition(";")[0].strip().lower(), body)
    if kind == "binary":
        return None
    encoding = encoding_of(body, type_, kind, page.url)
    return body.decode(encoding, "replace").removeprefix("\ufeff")


def _links(row: Page) -> list[str]:
    if row.follow_ups is None:
        return []
    return [read_head(one.record).url for one in unpack_admissions(row.follow_ups)]


def _page(row: Page, text: str | None) -> dict[str, Any]:
    page = {"url": row.url, "layer": row.depth, "state": row.state, "status": row.status}
    if row.reason:
        page["reason"] = row.reason
    return page if text is None else {**page, "html": text}


class _Files:
    """Files that appear when all are complete. Of many, only the ones used last are open."""

    def __init__(self, directory: Path, digits: int) -> None:
        self._directory = directory
        self._digits = digits
        self._open: OrderedDict[Path, BinaryIO] = OrderedDict()
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
        if len(self._open) > OPEN:
            self._open.popitem(last=False)[1].close()

    def finish(self) -> int:
        self._close()
        for draft, target in self._targets.items():
            draft.replace(target)
        count = len(self._targets)
        self._targets.clear()
        return count

    def discard(self) -> None:
        self._close()
        for draft in self._targets:
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    def _close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
