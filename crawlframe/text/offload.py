"""OFFLOAD: where long computations run, so that the event loop continues meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

# In a worker: the threads of its callbacks, where computing callbacks take turns.
OFFLOAD: ContextVar[Callable[[Callable[[], Any]], Awaitable[Any]]] = ContextVar(
    "offload", default=asyncio.to_thread
)
