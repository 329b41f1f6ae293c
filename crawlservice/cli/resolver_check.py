"""Whether a node can use the function of CRAWLFRAME_RESOLVER, before it starts."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

from crawlframe.conf import Settings
from crawlframe.errors import ConfigError


def check_resolver(settings: Settings) -> None:
    """Raises ConfigError if it cannot be imported. That is tried in a fork, because this process
    must not import the code of spiders."""
    if not settings.resolver:
        return
    context = multiprocessing.get_context("fork")
    near, far = context.Pipe(duplex=False)
    process = context.Process(target=_try, args=(settings.resolver, far))
    process.start()
    far.close()
    try:
        if near.poll(settings.load_timeout):
            problem = near.recv()
        else:
            problem = f"its import takes more than {settings.load_timeout:g} s"
    except EOFError:
        problem = "the process that imports it died"
    finally:
        process.kill()
        process.join()
        near.close()
    if problem:
        name = f"CRAWLFRAME_RESOLVER={settings.resolver!r}"
        raise ConfigError(
            f"{problem if problem.startswith(name) else f'{name}: {problem}'}; correct the module, "
            "name another function as module:function, or leave the setting out"
        )


def _try(resolver: str, line: Connection) -> None:
    from crawlframe.fetch.names.resolver import load_hook  # few nodes have one

    try:
        load_hook(resolver)
    except ConfigError as error:
        line.send(str(error))
    else:
        line.send("")
