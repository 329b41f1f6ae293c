"""Recording: one spider's folder of recorded pages. For each page there are files with its name:
``.page.json`` has the request and its fetches, the bodies are as they were received, and
``.result.json`` has the callback's results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from crawlframe.code.package import find_package
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError

HEAD = "recording.json"
PAGE, RESULT = ".page.json", ".result.json"
FORMAT = 1  # of the files; a newer one is refused
START = "start"  # the name of the page for which ``start`` is run
NAME = re.compile(r"[\w-][\w.-]{0,99}")  # of a body


class RecordingError(CrawlframeError):
    """A folder of recorded pages is missing, damaged or of a newer version."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A fetch that ended with an error: the name of its class, and its words."""

    kind: str
    message: str
    reason: str = ""


class RenderedFiles(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Results of a browser besides the DOM. ``screenshot`` and ``pdf`` are names of files."""

    captured: list[dict[str, Any]] = []
    results: list[Any] = []
    screenshot: str = ""
    pdf: str = ""


class Exchange(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A fetch: the request as it was sent, and a response, a redirect or an error. ``body`` is the
    name of a file, "" for an empty one; ``final`` the URL of the response, if it is not ``url``."""

    url: str
    method: str = "GET"
    sent: Any = None  # the body, as values.body_to_json has it
    status: int = 0
    headers: list[str] = []  # "Name: value"
    body: str = ""
    final: str = ""
    redirect: str = ""
    error: Failure | None = None
    rendered: RenderedFiles | None = None

    @property
    def header_pairs(self) -> list[tuple[str, str]]:
        pairs = (line.partition(": ") for line in self.headers)
        return [(name, value) for name, _, value in pairs]

    def key(self) -> tuple[str, str, str]:
        """The key that requests are compared by."""
        return self.method, self.url, json.dumps(self.sent)


class RecordedPage(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A page. ``request`` is as ``values.request_to_json`` returns it; None for ``start``.
    ``stripped`` names the secrets that were taken out."""

    request: dict[str, Any] | None = None
    exchanges: list[Exchange] = []
    stripped: list[str] = []

    @property
    def url(self) -> str:
        return self.request["url"] if self.request else "start:"


class _Format(msgspec.Struct):
    format: int = FORMAT


class Head(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Properties of all pages. ``arguments``: of the task, with placeholders for secrets.
    ``ignore``: parts of results that are not compared, such as ``items.scraped_at``."""

    spider: str
    format: int = FORMAT
    arguments: dict[str, Any] = {}
    ignore: list[str] = []


class Recording:
    """The folder of one spider. ``files`` has the contents of bodies by name."""

    def __init__(self, directory: Path, head: Head) -> None:
        self.directory = directory
        self.head = head
        self.pages: dict[str, RecordedPage] = {}
        self.results: dict[str, dict[str, Any]] = {}
        self._files: dict[str, bytes] = {}

    @classmethod
    def read(cls, directory: Path) -> Recording:
        """Reads a recording. Raises RecordingError, which names the file and its problem."""
        if (format := _decoded(directory / HEAD, _Format).format) > FORMAT:
            raise RecordingError(
                f"{directory / HEAD} has format {format}, of a newer Crawlframe; this one "
                f"reads {FORMAT}"
            )
        recording = cls(directory, _decoded(directory / HEAD, Head))
        for path in sorted(directory.glob(f"*{PAGE}"), key=_order):
            name = path.name.removesuffix(PAGE)
            recording.pages[name] = _decoded(path, RecordedPage)
            recording.results[name] = _decoded(directory / f"{name}{RESULT}", dict[str, Any])
        if not recording.pages:
            raise RecordingError(f"{directory} has no pages; record some")
        return recording

    def body(self, name: str) -> bytes:
        """The contents of a file. Raises RecordingError."""
        if not name:
            return b""
        if name not in self._files:
            if not NAME.fullmatch(name):
                raise RecordingError(f"{self.directory}: {name!r} is not the name of a body")
            self._files[name] = _read(self.directory / name)
        return self._files[name]

    def add(
        self,
        name: str,
        page: RecordedPage,
        result: dict[str, Any],
        files: Mapping[str, bytes],
    ) -> None:
        self.pages[name], self.results[name] = page, result
        self._files |= files

    def drop(self, name: str) -> None:
        """Forgets a page that does not replay."""
        del self.pages[name], self.results[name]

    def write(self) -> None:
        """Writes all files, and deletes files of pages that are gone; other files stay. Raises
        OSError."""
        earlier = files_in(self.directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        attributes = self.directory / ".gitattributes"
        if not attributes.exists():  # git would change the ends of lines of some bodies
            attributes.write_text("* -text\n")
        self.write_head()
        kept = {HEAD}
        for name, page in self.pages.items():
            _write(self.directory / f"{name}{PAGE}", msgspec.to_builtins(page))
            self.write_result(name)
            kept |= {f"{name}{PAGE}", f"{name}{RESULT}"}
            for body in files_of(page):
                (self.directory / body).write_bytes(self.body(body))
                kept.add(body)
        for name in earlier - kept:
            (self.directory / name).unlink(missing_ok=True)

    def write_head(self) -> None:
        _write(self.directory / HEAD, msgspec.to_builtins(self.head) | {"format": FORMAT})

    def write_result(self, name: str) -> None:
        _write(self.directory / f"{name}{RESULT}", self.results[name])


def files_of(page: RecordedPage) -> Iterable[str]:
    """The names of the files of a page's bodies."""
    for exchange in page.exchanges:
        rendered = exchange.rendered
        names = (exchange.body, *((rendered.screenshot, rendered.pdf) if rendered else ()))
        yield from filter(None, names)


def files_in(directory: Path) -> set[str]:
    """The names of the files of an existing recording. Names of bodies are missing where a page is
    damaged."""
    found = {HEAD}
    for path in directory.glob(f"*{PAGE}"):
        found |= {path.name, f"{path.name.removesuffix(PAGE)}{RESULT}"}
        with suppress(RecordingError):
            page = _decoded(path, RecordedPage)
            found |= {name for name in files_of(page) if NAME.fullmatch(name)}
    return found


def _order(path: Path) -> tuple[bool, str]:
    return path.name != f"{START}{PAGE}", path.name


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be read: {error.strerror}; restore it, or record the spider again"
        ) from None


def _decoded(path: Path, kind: Any) -> Any:
    try:
        return msgspec.json.decode(_read(path), type=kind)
    except msgspec.MsgspecError as error:
        raise RecordingError(
            f"{path} is damaged: {error}; restore it, or record the spider again"
        ) from None


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", "utf-8")


def recordings_of(settings: Settings) -> Path:
    """Returns the directory of the recordings; it need not exist. ``settings.recorded`` is relative
    to the directory that holds the package of the spiders."""
    if settings.recorded.is_absolute():
        return settings.recorded
    return project_of(settings) / settings.recorded


def project_of(settings: Settings) -> Path:
    """Returns the directory that holds the package of the spiders."""
    if settings.scrapy:
        return Path(settings.scrapy).resolve()
    directory = find_package(settings.spiders)
    if directory is None:
        return Path.cwd()
    return directory.resolve().parents[settings.spiders.count(".")]
