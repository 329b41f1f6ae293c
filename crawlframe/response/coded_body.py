"""CodedBody: the body of a response as its server sent it, in one content coding."""

from __future__ import annotations

from typing import NamedTuple


class CodedBody(NamedTuple):
    """``data`` in ``coding`` is ``body``, the same object as that of the response."""

    coding: str
    data: bytes
    body: bytes
