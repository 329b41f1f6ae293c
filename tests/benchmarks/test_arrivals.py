from __future__ import annotations

import asyncio
import socket
import time
from contextlib import closing

from benchmarks.politeness.arrivals import has_gone, receive, stamp


def test_a_request_that_is_read_late_keeps_the_time_at_which_it_came() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        stamp(listener)
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    server.setblocking(False)
    stamp(server)
    with client, server:
        assert not has_gone(server)
        sent = time.time()
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        time.sleep(0.3)
        data, arrived = asyncio.run(receive(server))
        assert data == b"GET / HTTP/1.1\r\n\r\n"
        assert -0.05 < arrived - sent < 0.2
        client.close()
        assert asyncio.run(receive(server))[0] == b""
        assert has_gone(server)
