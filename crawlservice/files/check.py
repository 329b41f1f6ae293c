"""Compares the file store with the database."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from crawlservice.files.download import store
from crawlservice.models import PageFile, StoredFile

READ = 1 << 20  # bytes at a time


def problems(
    checked: Callable[[int], None] = lambda _: None, *, contents: bool = False
) -> Iterator[str]:
    """Faults of files that pages name, a sentence for each. ``contents``: all are read and
    hashed. ``checked`` is called with the number of files that were checked since the last call.
    Raises StoreError."""
    for file in StoredFile.objects.order_by("pk").iterator(chunk_size=1000):
        problem = _problem(file, contents)
        checked(1)
        # Asked afterwards: it may have been pruned meanwhile.
        if problem and (page := PageFile.objects.filter(file=file).first()):
            yield f"{file.pk}: {problem}; page {page.rid} of task {page.task_id}: {page.url}"


def _problem(file: StoredFile, contents: bool) -> str:
    size = store().size(file.pk)
    if size is None:
        return "missing"
    if size != file.size:
        return f"has {size} bytes instead of {file.size}"
    return "has another content" if contents and _digest(file.pk) != file.pk else ""


def _digest(sha256: str) -> str:
    digest = hashlib.sha256()
    with store().open(sha256) as file:
        while chunk := file.read(READ):
            digest.update(chunk)
    return digest.hexdigest()
