"""ProcessGroup: its processes live and end together, whichever ends and however."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from crawlservice.cli.process_group import ProcessGroup

pytestmark = pytest.mark.process

LIVES = "import time; print('up', flush=True); time.sleep(60)"
ENDS = "print('last'); raise SystemExit(3)"
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); " + LIVES
POLITE = "import signal, sys; signal.signal(15, lambda *_: sys.exit(print('bye'))); " + LIVES


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


class Out(io.BytesIO):
    """The output of the group; ``when`` calls back as soon as a text appears."""

    def __init__(self, when: bytes = b"", then=lambda: None) -> None:
        super().__init__()
        self.when, self.then = when, then

    def flush(self) -> None:
        if self.when and self.when in self.getvalue():
            self.when = b""
            self.then()


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all_members_gracefully(number):
    out = Out(b"up\n", lambda: interrupt(number))
    before = signal.getsignal(number)
    with ProcessGroup(out, 20) as group:
        group.start("one", python(POLITE))
        assert group.run() is None
    assert out.getvalue() == b"one  | up\none  | bye\n"
    assert [member.process.returncode for member in group.members] == [0]
    assert signal.getsignal(number) is before


def test_a_process_that_ends_ends_the_group_and_is_named():
    out = Out()
    with ProcessGroup(out, 20) as group:
        group.start("lives", python(LIVES))
        group.start("ends", python(ENDS))
        ended = group.run()
    assert ended is not None
    assert (ended.name, ended.how_it_ended()) == ("ends", "ended with status 3")
    assert group.members[0].process.returncode == -signal.SIGTERM
    assert b"ends | last\n" in out.getvalue()


def test_one_that_is_killed_is_named_with_the_signal():
    out = Out()
    with ProcessGroup(out, 20) as group:
        group.start("one", python(LIVES))
        out.when, out.then = b"up\n", group.members[0].process.kill
        ended = group.run()
    assert ended is not None
    assert ended.how_it_ended() == "was killed by signal 9"


def test_one_that_does_not_stop_is_killed():
    out = Out(b"up\n", interrupt)
    with ProcessGroup(out, 0.2) as group:
        group.start("one", python(STUBBORN))
        assert group.run() is None
    assert group.members[0].process.returncode == -signal.SIGKILL


def test_a_program_that_does_not_exist_is_no_member():
    with ProcessGroup(Out(), 20) as group:
        group.start("one", python(LIVES))
        with pytest.raises(FileNotFoundError):
            group.start("two", ["/no/such/program"])
    assert [member.process.returncode for member in group.members] == [-signal.SIGTERM]


def test_output_comes_in_whole_lines():
    code = (
        "import os, time; [(os.write(1, part), time.sleep(.05)) for part in (b'a', b'b\\nc', b'd')]"
    )
    out = Out()
    with ProcessGroup(out, 20) as group:
        group.start("one", python(code))
        group.run()
    assert out.getvalue() == b"one  | ab\none  | cd\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_members_do_not_outlive_a_killed_household():
    code = f"""
import sys
from crawlservice.cli.process_group import ProcessGroup
with ProcessGroup(sys.stdout.buffer, 20) as group:
    group.start("one", [sys.executable, "-c", {LIVES!r}])
    print(group.members[0].process.pid, flush=True)
    group.run()
"""
    owner = subprocess.Popen(python(code), stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    assert "up" in owner.stdout.readline()
    guard = threading.Timer(30, lambda: os.kill(pid, signal.SIGKILL))
    guard.start()
    owner.kill()
    owner.wait()
    owner.stdout.read()  # its end: no process has the pipe any more
    while os.path.exists(f"/proc/{pid}"):  # noqa: PTH110
        time.sleep(0.01)
    assert guard.is_alive()
    guard.cancel()
    owner.stdout.close()
