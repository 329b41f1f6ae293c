"""When the plain fetch of a page is left out, and when one without items is accepted."""

from __future__ import annotations

from crawlframe.render.knowledge import (
    FIRST_PAUSE,
    FIRST_PROBE,
    LAST_PROBE,
    LIFE,
    LONGEST_PAUSE,
    PROBES,
    STREAK,
    UNKNOWN,
    Knowledge,
)


def test_pages_are_fetched_plainly_until_many_in_a_row_needed_the_browser():
    assert not UNKNOWN.leaves_out_plain()
    assert not Knowledge(streak=STREAK - 1).leaves_out_plain()
    assert Knowledge(streak=STREAK).leaves_out_plain()


def test_the_plain_fetch_is_tried_again_with_growing_pauses():
    pauses = []
    for streak in range(STREAK, STREAK + 6):
        skipped = 0
        while Knowledge(streak=streak, skipped=skipped).leaves_out_plain():
            skipped += 1
        pauses.append(skipped)
    assert pauses == [4, 8, 16, 32, 32, 32]
    assert (pauses[0], pauses[-1]) == (FIRST_PAUSE, LONGEST_PAUSE)
    assert Knowledge(streak=10**9).pause == LONGEST_PAUSE


def test_a_page_without_items_is_accepted_after_several_were_rendered_in_vain():
    assert not Knowledge(bare=PROBES - 1).accepts_bare()
    assert Knowledge(bare=PROBES).accepts_bare()


def test_such_pages_are_rendered_again_with_growing_pauses():
    for more, pause in enumerate((FIRST_PROBE, 16, 32, 64, LAST_PROBE, LAST_PROBE)):
        known = Knowledge(bare=PROBES + more)
        assert known._replace(accepted=pause - 1).accepts_bare()
        assert not known._replace(accepted=pause).accepts_bare()


def test_where_pages_have_items_one_without_is_never_accepted():
    assert not Knowledge(bare=PROBES, items=1).accepts_bare()


def test_it_does_not_hold_for_ever():
    known = Knowledge(streak=STREAK, used=1_000)
    assert known.at(1_000 + LIFE) == known
    assert known.at(1_001 + LIFE) == UNKNOWN
