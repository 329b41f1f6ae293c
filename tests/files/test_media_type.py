"""The media type of a file: the Content-Type, checked against the first bytes."""

from __future__ import annotations

import pytest

from crawlframe.base.media_type import PATTERN, is_wanted, media_type

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
JPEG = b"\xff\xd8\xff\xe0" + bytes(20)
ZIP = b"PK\x03\x04" + bytes(20)
HTML = b"\n<!DOCTYPE html><title>Log in</title>"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.mark.parametrize(
    ("declared", "head", "expected"),
    [
        ("image/png", PNG, "image/png"),
        ("image/jpg", JPEG, "image/jpeg"),
        ("image/jpeg", PNG, "image/png"),
        ("image/jpeg", HTML, "text/html"),
        ("application/pdf", HTML, "text/html"),
        ("text/csv", HTML, "text/html"),
        ("application/xhtml+xml", HTML, "application/xhtml+xml"),
        ("image/svg+xml", b"<?xml version='1.0'?><svg>", "image/svg+xml"),
        ("image/svg+xml", b"<svg xmlns='x'>", "image/svg+xml"),
        ("", PNG, "image/png"),
        ("application/octet-stream", b"%PDF-1.7", "application/pdf"),
        ("text/plain", ZIP, "application/zip"),
        ("text/plain", b"hello", "text/plain"),
        ("", b"hello", "text/plain"),
        ("", b"\x00\x01\x02", "application/octet-stream"),
        ("", b"", "application/octet-stream"),
        (DOCX, ZIP, DOCX),
        (DOCX, HTML, "text/html"),
        ("text/csv", ZIP, "application/zip"),
        ("text/csv", b"a,b\n", "text/csv"),
        ("application/json", b'{"a": 1}', "application/json"),
        ("image/png", b"not found", "text/plain"),
        ("image/png", b"\x00broken", "application/octet-stream"),
        ("image/webp", b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        ("audio/wav", b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/wave"),
        ("", b"xxxxxxxxWAVE", "text/plain"),
        ("audio/mp4", b"\x00\x00\x00 ftypM4A ", "audio/mp4"),
        ("image/avif", b"\x00\x00\x00 ftypavif", "image/avif"),
    ],
)
def test_what_a_file_is(declared: str, head: bytes, expected: str) -> None:
    assert media_type(declared, head) == expected


@pytest.mark.parametrize(
    ("kind", "wanted", "expected"),
    [
        ("image/png", ("image/*",), True),
        ("image/png", ("image/jpeg", "application/pdf"), False),
        ("image/jpg", ("image/jpeg",), True),
        ("image/jpeg", ("image/jpg",), True),
        ("text/html", ("*/*",), True),
        ("text/html", ("image/*",), False),
    ],
)
def test_which_types_are_wanted(kind: str, wanted: tuple[str, ...], expected: bool) -> None:
    assert is_wanted(kind, wanted) is expected


@pytest.mark.parametrize("text", ["image", "image/", "/png", "im age/png", "image/*x", "image/p*"])
def test_what_is_no_media_type(text: str) -> None:
    assert PATTERN.fullmatch(text) is None or "*" in text[:-1]
