"""The downloader keeps the contract of Crawlframe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from crawlframe.testing.downloader_contract import DownloaderContract

pytest.importorskip("curl_cffi")
sys.path.insert(0, str(Path(__file__).parents[1]))  # also where it is not installed


class TestCffiDownloader(DownloaderContract):
    def make(self, concurrency: int) -> Any:
        from crawlframe_curl_cffi import CffiDownloader

        return CffiDownloader(concurrency)
