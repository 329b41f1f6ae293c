"""Virtual environments, under build/bench/, of the programs compared with Crawlframe."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PLACE = CHECKOUT / "build" / "bench"


def environment(name: str, requirements: Path) -> Path:
    """The Python of build/bench/``name``, with the packages of the file ``requirements`` and our
    own interpreter. It is made anew when either has changed.

    Raises RuntimeError with pip's words when that fails."""
    place = PLACE / name
    python = place / "bin" / "python"
    stamp = place / "stamp"
    wanted = _digest(requirements)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing {name} into {place.relative_to(CHECKOUT)} (once)", file=sys.stderr)
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", str(place)])
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input"]
    _run([*pip, "-r", str(requirements)])
    stamp.write_text(wanted)
    return python


def versions(python: Path) -> dict[str, str]:
    """The packages installed in an environment: name -> version."""
    command = [str(python), "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    pairs = (line.partition("==") for line in done.stdout.splitlines())
    return {name.lower(): version for name, _, version in pairs}


def _digest(requirements: Path) -> str:
    text = f"{sys.executable}\n{sys.version}\n{requirements.read_text()}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise RuntimeError(f"{' '.join(command)}: {words}")
