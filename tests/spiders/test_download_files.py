"""The example in docs/howto/download-files.md saves files of a real server."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.fetch.conftest import Site, _server, site
from tests.howto import spider_of
from tests.spiders.test_docs import crawl, html, items

__all__ = ("_server", "site")


def test_files_are_stored_once_and_checked(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the default directory of files is below it
    spider = spider_of("howto/download-files.md", "downloads", site.url)
    spider.settings = {**spider.settings, "delay": 0, "robots": False}
    bodies = {"/a.bin": bytes(range(256)), "/b.bin": bytes(range(256)), "/c.bin": b"other"}
    sums = {path: hashlib.sha256(body).hexdigest() for path, body in bodies.items()}
    wrong = sums | {"/c.bin": "0" * 64}
    for path, body in bodies.items():
        site.answer(path, body, headers={"Content-Type": "application/octet-stream"})
    links = (
        f'<a class=file href="{path}" data-sha256="{sum_}">f</a>' for path, sum_ in wrong.items()
    )
    html(site, "/downloads", "".join(links))

    outcomes = crawl(spider, {})
    stored = [json.loads(item)["file"] for item in items(outcomes)]
    sha256 = sums["/a.bin"]
    path = f"sha256/{sha256[:2]}/{sha256[2:4]}/{sha256}"
    assert [(one["url"], one["size"], one["path"]) for one in stored] == [
        (f"{site.url}/a.bin", 256, path), (f"{site.url}/b.bin", 256, path),
    ]  # fmt: skip
    assert (tmp_path / "var/files" / path).read_bytes() == bodies["/a.bin"]
    (failed,) = [one for one in outcomes if one.reason]
    assert (failed.url, failed.reason) == (f"{site.url}/c.bin", "callback")
    assert f"the checksum is {sums['/c.bin']}, not 000" in failed.detail
