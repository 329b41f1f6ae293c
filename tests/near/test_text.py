"""The compared text of a page."""

from __future__ import annotations

import time

import pytest

from crawlframe.near.fingerprint import visible_text, words_of


def words(page: str) -> list[str]:
    return [word.decode() for word in words_of(visible_text(page.encode()))]


@pytest.mark.parametrize(
    "page",
    [
        "<p>Two words",
        "<head><title>no</title></head><p class=no>Two <b>words</b></p>",
        "<script>var no = '<p>no';</script>Two<!-- no <p> -->words",
        "<STYLE media=all>no</STYLE >Two<br>words<script>no",
        "Two words<!-- no",
        "<head><p>Two words",  # its end tag may be left out
        "<header class=no>no <nav>no</nav></header>Two <navy>words</navy><footer>no</footer>",
        "<aside>Two words",
        "&#84;wo&nbsp;words, “two” — words"[:19],
    ],
)
def test_only_what_is_shown_counts(page: str) -> None:
    assert words(page) == ["two", "words"]


def test_words_are_compared_without_signs_and_case() -> None:
    assert words("Él dice: “¡Hola!”, it's 3.14 – OK…") == [
        "él", "dice", "hola", "it", "s", "3", "14", "ok",
    ]  # fmt: skip


def test_each_character_of_a_script_without_spaces_is_a_word() -> None:
    assert words("Python は言語。") == ["python", "は", "言", "語"]
    assert words("파이썬 언어") == ["파이썬", "언어"]


@pytest.mark.parametrize("part", ["<", "<a ", "<!--", "<script>", "</script", "<head>", "&amp;&"])
def test_no_page_takes_long(part: str) -> None:
    def seconds(size: int) -> float:
        page = (part * (size // len(part))).encode()
        began = time.thread_time()
        visible_text(page)
        return time.thread_time() - began

    # Four times the size would take sixteen times as long in quadratic time.
    assert min(seconds(1 << 21) for _ in range(3)) < 10 * min(seconds(1 << 19) for _ in range(3))
