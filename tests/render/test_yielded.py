"""Plain pages that are complete, and lessons of a rendered page."""

from __future__ import annotations

import pytest

from crawlframe.render.knowledge import PROBES, UNKNOWN, Knowledge, Lesson
from crawlframe.render.yielded import NOTHING, Reason, Yielded, lacks, lesson_of, reason_of

ITEMS = Knowledge(items=1)
BARE = Knowledge(bare=PROBES)


@pytest.mark.parametrize(
    ("plain", "known", "reason"),
    [
        (Yielded(items=1), UNKNOWN, None),
        (Yielded(items=1), ITEMS, None),
        (Yielded(items=3, missing=True), ITEMS, Reason.MISSING),
        (Yielded(items=1, closing=True), UNKNOWN, Reason.CLOSING),
        (NOTHING, UNKNOWN, Reason.BARE),
        (Yielded(links=7), UNKNOWN, Reason.BARE),
        (Yielded(links=7), BARE, None),
        (NOTHING, BARE, None),
        (Yielded(links=7), ITEMS, Reason.NO_ITEMS),
        (Yielded(missing=True), BARE, Reason.MISSING),  # its only item was dropped
    ],
)
def test_an_incomplete_page_is_rendered(plain, known, reason):
    assert reason_of(plain, known) == reason


@pytest.mark.parametrize(
    ("reason", "plain", "rendered", "lesson"),
    [
        (Reason.ASKED, NOTHING, NOTHING, Lesson.NEEDED),
        (Reason.FAILED, NOTHING, Yielded(items=5), None),
        (Reason.MISSING, Yielded(1, missing=True), Yielded(1), Lesson.NEEDED),
        (Reason.MISSING, Yielded(1, missing=True), Yielded(1, missing=True), Lesson.VAIN),
        (Reason.MISSING, Yielded(1, missing=True), Yielded(9, missing=True), Lesson.NEEDED),
        (Reason.MISSING, Yielded(missing=True), NOTHING, Lesson.VAIN),
        (Reason.NO_ITEMS, Yielded(links=1), Yielded(1, 1), Lesson.NEEDED),
        (Reason.NO_ITEMS, Yielded(links=1), Yielded(links=1), Lesson.VAIN),
        (Reason.BARE, Yielded(links=1), Yielded(links=2), Lesson.NEEDED),
        (Reason.BARE, Yielded(links=2), Yielded(links=2), Lesson.BARE_VAIN),
        (Reason.CLOSING, Yielded(closing=True), Yielded(1), Lesson.NEEDED),
        (Reason.CLOSING, Yielded(closing=True), Yielded(closing=True), Lesson.VAIN),
    ],
)
def test_only_a_rendered_page_that_has_more_shows_that_it_was_needed(
    reason, plain, rendered, lesson
):
    assert lesson_of(plain, rendered, reason) == lesson


@pytest.mark.parametrize("value", ['""', "null", "[]", "{}"])
def test_an_empty_field_is_missing(value):
    items = [b'{"name": "a", "price": 1}', f'{{"name": "b", "price": {value}}}'.encode()]
    assert lacks(items, ["price"])
    assert not lacks(items, ["name"])
    assert not lacks(items, [])


@pytest.mark.parametrize("value", ["0", "false", "0.0", '"0"'])
def test_a_zero_is_a_value(value):
    assert not lacks([f'{{"price": {value}}}'.encode()], ["price"])


def test_an_absent_field_is_missing():
    assert lacks([b'{"name": "a"}'], ["price"])
    assert not lacks([], ["price"])
