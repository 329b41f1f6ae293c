"""Writers of segments killed at any point: synced records read back. WARC_KILLS=200: long."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlframe.warc import CapturePlace, DirectoryArchive, recover
from crawlframe.warc.segment_writer import OPEN
from tests.warc.captures import body_of_page, judged

KILLS = int(os.environ.get("WARC_KILLS", "12"))
AT_ONCE = 2  # writers in one directory
LONGEST_LIFE = 0.25  # seconds that a writer may write


@pytest.mark.process
def test_what_was_synced_survives_every_kill(tmp_path: Path) -> None:
    chance, archive = random.Random(KILLS), DirectoryArchive(tmp_path)
    pages = torn = kills = 0
    while kills < KILLS:
        seeds = range(kills, kills + AT_ONCE)
        writers = [_writer(tmp_path, seed) for seed in seeds]
        said = [writer.stdout.readline() for writer in writers if writer.stdout]  # they write now
        for writer in writers:
            end = time.monotonic() + chance.uniform(0, LONGEST_LIFE)
            while time.monotonic() < end:
                recover(tmp_path)  # a steward, meanwhile
            writer.send_signal(signal.SIGKILL)
        kills += len(writers)
        synced = [*_synced(writers, said)]
        before = {path: path.stat().st_size for path in tmp_path.glob(f"*{OPEN}")}
        for number, place in synced:
            assert archive.read(place).payload == body_of_page(number)
        recover(tmp_path, "node-1")
        assert [*tmp_path.glob(f"*{OPEN}")] == []
        finals = {path: path.with_name(path.name.removesuffix(OPEN)) for path in before}
        torn += sum(
            not final.exists() or final.stat().st_size < before[path]
            for path, final in finals.items()
        )
        for number, place in synced:
            assert archive.read(place).payload == body_of_page(number)
        pages += len(synced)
    print(f"{kills} kills, {pages} pages, {torn} torn segments")
    assert pages >= kills
    segments = [*tmp_path.iterdir()]
    assert sum(record.rec_type == "response" for path in segments for record in judged(path)) >= (
        pages
    )


def _writer(directory: Path, seed: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "tests.warc.written", str(directory), str(seed)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def _synced(
    writers: list[subprocess.Popen[str]], said: list[str]
) -> Iterator[tuple[int, CapturePlace]]:
    for writer, first in zip(writers, said, strict=True):
        rest, _ = writer.communicate()
        for line in [first, *rest.splitlines(keepends=True)]:
            if line.endswith("\n"):
                number, segment, offset, length = line.split()
                yield int(number), CapturePlace(segment, int(offset), int(length))
