"""A bare client of the DevTools protocol: what Chromium itself costs on these pages. Nothing is
checked, limited or kept, and pages that do harm are beyond it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from benchmarks.browser.contenders.words import Rows, Words

FLAGS = ["--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"]
LOAD = "Page.loadEventFired"
LONGEST = 1 << 30  # bytes of a message


class Chromium:
    """The protocol on two pipes: messages of JSON, each with a zero byte at its end."""

    def __init__(self, words: Words, directory: str) -> None:
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.loaded: dict[str, asyncio.Event] = {}  # session -> its page is loaded
        theirs, self._out = os.pipe()
        self._in, also_theirs = os.pipe()
        command = ["sh", "-c", f'exec "$@" 3<&{theirs} 4>&{also_theirs}', "sh", words.program]
        command += [*FLAGS, *words.flags, f"--user-data-dir={directory}"]
        self.process = subprocess.Popen(
            command, pass_fds=[theirs, also_theirs], stderr=subprocess.DEVNULL
        )
        os.close(theirs)
        os.close(also_theirs)

    async def listen(self) -> None:
        reader = asyncio.StreamReader(limit=LONGEST)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._in, "rb", 0)
        )
        while True:
            message = json.loads((await reader.readuntil(b"\0"))[:-1])
            if (number := message.get("id")) is not None:
                self._answers.pop(number).set_result(message.get("result", {}))
            elif message["method"] == LOAD:
                self.loaded[message["sessionId"]].set()

    async def send(self, method: str, session: str = "", **parameters: Any) -> Any:
        number = next(self._numbers)
        self._answers[number] = answer = asyncio.get_running_loop().create_future()
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return await answer


async def tab(browser: Chromium, urls: list[str], rows: Rows) -> None:
    target = (await browser.send("Target.createTarget", url="about:blank"))["targetId"]
    attached = await browser.send("Target.attachToTarget", targetId=target, flatten=True)
    session = attached["sessionId"]
    loaded = browser.loaded[session] = asyncio.Event()
    await browser.send("Page.enable", session)
    await browser.send("Network.enable", session)
    await browser.send("Network.setBlockedURLs", session, urls=["*.jpg"])
    while urls:
        url = urls.pop()
        loaded.clear()
        await browser.send("Page.navigate", session, url=url)
        await loaded.wait()
        expression = "document.documentElement.outerHTML"
        got = await browser.send("Runtime.evaluate", session, expression=expression)
        rows.page(url, got["result"]["value"])


async def crawl(words: Words) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        browser = Chromium(words, directory)
        listening = asyncio.ensure_future(browser.listen())
        urls, rows = [url for url, _ in words.urls()], Rows(words)
        await asyncio.gather(*(tab(browser, urls, rows) for _ in range(words.at_once)))
        await browser.send("Browser.close")
        browser.process.wait(20)
        listening.cancel()


if __name__ == "__main__":
    asyncio.run(crawl(Words.heard()))
