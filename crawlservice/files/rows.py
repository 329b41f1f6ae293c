"""Rows of saved files, written in the transactions of the pages that save them.

A page may only be stored while its files can be read. Each transaction locks the rows of its files
and then looks for them in the store; a deletion locks the row of its file before
(crawlservice/files/pruning.py). So either the page finds the file gone, or its row is seen.
Pictures are for people to look at; a page is stored without a picture that cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from crawlframe.errors import StoreError
from crawlframe.files.saved_file import SavedFile
from crawlframe.items.encode import clean_text
from crawlframe.run.ledger import FilesGone, LedgerAway
from crawlframe.run.outcome import Outcome
from crawlframe.run.participant import Participant
from crawlservice.files.download import store
from crawlservice.models import MEDIA_TYPE, PageFile, StoredFile

log = logging.getLogger(__name__)


class PageFiles(Participant):
    """Writes the files of pages, and their pictures as far as the store has them. Raises FilesGone
    if a file was pruned, and LedgerAway if the store does not answer."""

    takes = ("results.files", "results.pictures")

    def write(self, outcomes: list[Outcome]) -> None:
        saved = {(o.rid, file.sha256): (o, kind, file) for o in outcomes for kind, file in _of(o)}
        if not saved:
            return
        first: dict[str, tuple[Outcome, SavedFile]] = {}
        for (_, sha256), (outcome, _kind, file) in saved.items():
            first.setdefault(sha256, (outcome, file))
        StoredFile.objects.bulk_create(
            # Sorted, so that two transactions cannot wait for each other.
            [_stored(*first[sha256]) for sha256 in sorted(first)],
            update_conflicts=True,
            update_fields=["saved_at"],
            unique_fields=["sha256"],
        )
        needed = {sha256 for (_, sha256), (_o, kind, _f) in saved.items() if not kind}
        for sha256 in sorted(needed):
            file = first[sha256][1]
            if _size(sha256) != file.size:
                raise FilesGone(
                    f"{file.url}: its file {file.path} was pruned before it was recorded"
                )
        lost = _lost({sha256: file for sha256, (_, file) in first.items() if sha256 not in needed})
        saved = {key: one for key, one in saved.items() if key[1] not in lost}
        PageFile.objects.bulk_create(
            [
                PageFile(
                    task_id=o.task, rid=UUID(bytes=o.rid), file_id=sha256, url=clean_text(f.url),
                    kind=kind,
                )
                for (_, sha256), (o, kind, f) in saved.items()
            ],
            # Of an error that runs again, whose inline fetches are named here.
            ignore_conflicts=True,
        )  # fmt: skip
        for task, kind in sorted({(o.task, kind) for o, kind, _ in saved.values() if kind}):
            # The oldest pictures of a task are forgotten; files without a page are pruned.
            rows = PageFile.objects.filter(task=task, kind=kind)
            keep = settings.KEEP_PICTURES
            if older := [*rows.order_by("-pk").values_list("pk", flat=True)[keep : keep + 1]]:
                rows.filter(pk__lte=older[0]).delete()


def _of(outcome: Outcome) -> Iterator[tuple[str, SavedFile]]:
    """The pictures and files of a page; of equal ones, the last counts."""
    yield from ((one.kind, one.file) for one in outcome.results.pictures if one.file is not None)
    yield from (("", file) for file in reversed(outcome.results.files))


def _stored(outcome: Outcome, file: SavedFile) -> StoredFile:
    return StoredFile(
        sha256=file.sha256,
        size=file.size,
        media_type=clean_text(file.media_type)[:MEDIA_TYPE],
        task=outcome.task,
        page=UUID(bytes=outcome.rid),
        saved_at=Now(),
    )


def _lost(pictures: Mapping[str, SavedFile]) -> set[str]:
    """Pictures that cannot be read. Their rows are deleted, unless other pages name them."""
    kept: set[str] = set()
    for sha256, file in pictures.items():
        try:
            if store().size(sha256) == file.size:
                kept.add(sha256)
            else:
                log.warning("a picture of %s is not kept: it was pruned meanwhile", file.url)
        except StoreError as error:  # the others would wait for it as long
            log.warning("%d pictures are not kept: %s", len(pictures) - len(kept), error)
            break
    lost = pictures.keys() - kept
    if lost:
        named = PageFile.objects.filter(file=OuterRef("pk"))
        StoredFile.objects.filter(~Exists(named), pk__in=lost).delete()
    return lost


def _size(sha256: str) -> int | None:
    try:
        return store().size(sha256)
    except StoreError as error:
        raise LedgerAway(str(error)) from None
