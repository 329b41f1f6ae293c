"""Submitter: submits tasks at a constant rate, whether or not the last one was answered.

A process of its own: ``python -m benchmarks.api.submitter HOST PORT TOKEN RATE SECONDS``. It prints
JSON: seconds of each answer, how many were no 201, and by how much the last one was sent late."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time

CONNECTIONS = 16  # kept alive


class Submitter:
    """Use ``run`` once."""

    def __init__(self, host: str, port: int, token: str, rate: float, seconds: float) -> None:
        self._address = host, port
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._rate = rate
        self._total = round(rate * seconds)
        self._lock = threading.Lock()
        self._next = 0
        self.took: list[float] = []
        self.refused: list[str] = []
        self.late = 0.0

    def run(self) -> None:
        self._started = time.monotonic()
        threads = [threading.Thread(target=self._send_some) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send_some(self) -> None:
        connection = http.client.HTTPConnection(*self._address, timeout=60)
        while (number := self._take()) is not None:
            due = self._started + number / self._rate
            time.sleep(max(0.0, due - time.monotonic()))
            sent = time.monotonic()
            status = self._send(connection, number)
            with self._lock:
                self.took.append(time.monotonic() - sent)
                self.late = max(self.late, sent - due)
                if status != "201":
                    self.refused.append(status)

    def _take(self) -> int | None:
        with self._lock:
            if self._next >= self._total:
                return None
            self._next += 1
            return self._next - 1

    def _send(self, connection: http.client.HTTPConnection, number: int) -> str:
        body = json.dumps({"spider": "brief", "arguments": {"number": number}})
        headers = {**self._headers, "Idempotency-Key": f"{self._started}-{number}"}
        try:
            connection.request("POST", "/api/v1/tasks", body, headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return type(error).__name__
        return str(answer.status)


def main() -> None:
    host, port, token, rate, seconds = sys.argv[1:]
    submitter = Submitter(host, int(port), token, float(rate), float(seconds))
    submitter.run()
    data = {"took": submitter.took, "refused": submitter.refused, "late": submitter.late}
    print(json.dumps(data))


if __name__ == "__main__":
    main()
