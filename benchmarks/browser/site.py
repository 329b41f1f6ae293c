"""Site: pages that scripts build, and pages that do what no page should."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from types import TracebackType

CARDS = 300
EVILS = ("load", "loop", "alerts", "windows", "download", "crash", "huge", "kill")
HUGE = 300 << 20  # bytes
CHUNK = b"<p>text</p>" * 8192

_PAGE = """<!doctype html><title>shop</title><link rel=stylesheet href=/style.css>
<div id=list></div><script>
const items = %s;
for (const item of items) {
  const card = document.createElement("article");
  card.className = "card";
  card.innerHTML = `<h2>${item.name}</h2><img src="/img/${item.id}.jpg" alt="">
    <p class="price">${item.price.toFixed(2)}</p><a href="/item/${item.id}">more</a>`;
  card.querySelector("h2").addEventListener("click", () => card.classList.toggle("open"));
  document.getElementById("list").append(card);
}
</script>"""
_SCRIPTS = {
    "load": "<script src=/never></script>",
    "loop": "<script>while (1);</script>",
    "alerts": "<script>while (1) alert('again');</script>",
    "windows": "<script>for (let i = 0; i < 100; i++) open('/style.css');</script><p class=card>",
    "crash": "<script src=/never></script>",
    "kill": "<script src=/never></script>",
}


class Site:
    """``with Site() as site: site.url``. ``asked`` is called in another thread with the path of
    each page of EVILS that is asked for."""

    def __init__(self, asked: Callable[[str], None] = lambda path: None) -> None:
        self._asked = asked
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        items = [{"id": n, "name": f"Article number {n}", "price": n * 1.25} for n in range(CARDS)]
        self._cards = (_PAGE % json.dumps(items)).encode()
        self.url = ""

    def __enter__(self) -> Site:
        self._thread.start()
        start = asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        server = asyncio.run_coroutine_threadsafe(start, self._loop).result(10)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(_end_all(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await self._answer(head.split(b" ", 2)[1].decode(), writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:  # the site ends
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        _, kind, *_ = path.split("/")
        if kind in EVILS:
            self._asked(path)
        if kind == "never":
            await asyncio.sleep(3600)
        elif kind == "huge":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n")
            for _ in range(HUGE // len(CHUNK)):
                writer.write(CHUNK)
                await writer.drain()
            raise ConnectionError("it is sent")
        elif kind == "download":
            _write(writer, b"x" * 1000, "Content-Disposition: attachment; filename=x.html\r\n")
        elif kind in _SCRIPTS:
            _write(writer, _SCRIPTS[kind].encode())
        elif kind == "cards":
            _write(writer, self._cards)
        else:
            _write(writer, b"", kind="text/css")
        await writer.drain()


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _write(
    writer: asyncio.StreamWriter, body: bytes, more: str = "", kind: str = "text/html"
) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    writer.write(head.encode() + body)
