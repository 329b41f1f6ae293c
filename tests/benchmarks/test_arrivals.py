from __future__ import annotations

import asyncio
import socket
import time

import pytest

from benchmarks.politeness.arrivals import SO_TIMESTAMPING, has_gone, receive, stamp

REQUEST = b"GET / HTTP/1.1\r\n\r\n"
READ_LATER = 0.1  # seconds
TRIES = 50


def test_a_request_that_is_read_late_keeps_the_time_at_which_it_came() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stamp(listener)
        if not listener.getsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING):
            pytest.skip("this kernel keeps no times of packets")
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        server.setblocking(False)
        stamp(server)
        with client, server:
            assert not has_gone(server)
            for _ in range(TRIES):  # a busy kernel starts some time after the request
                sent = time.time()
                client.sendall(REQUEST)
                time.sleep(READ_LATER)
                data, arrived = asyncio.run(receive(server))
                assert data == REQUEST
                if arrived < sent + READ_LATER:
                    break
            else:
                raise AssertionError("the kernel kept no time")
            assert arrived > sent - 0.05
            client.close()
            assert asyncio.run(receive(server))[0] == b""
            assert has_gone(server)
