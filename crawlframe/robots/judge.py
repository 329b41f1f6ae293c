"""judge: the meaning of a robots.txt's status (RFC 9309, 2.3.1 and 2.4)."""

from __future__ import annotations

from crawlframe.robots.reading import MAX_FILE, Fetched
from crawlframe.robots.rules import MAX_BYTES, Rules, read_text
from crawlframe.robots.state import SILENT, RobotsState, Status

HOUR, DAY = 3600.0, 86_400.0  # seconds
MIN_AGE, MAX_AGE = HOUR, DAY  # for which a file counts; the server's max-age within these
FIRST_WAIT, LONGEST_WAIT = 60.0, HOUR  # between two attempts to read one that is unreachable
RETRY_WAIT = 2.0  # the same, where nothing answered: requests fail of that, and use up their tries
MAX_OUTAGE = 30 * DAY  # after which one that was unreachable all the time counts as missing
READ = (Status.RULES, Status.NO_RULES, Status.NOT_TEXT)
TOO_MANY = 429


def judge(
    before: RobotsState, got: Fetched, now: float, token: str, max_delay: float
) -> RobotsState:
    """Returns the state after one attempt to read it. ``now``: seconds since the epoch, by the
    clock of ``before``. ``token``: of the crawler that read it; ``max_delay``: seconds of a
    Crawl-delay that are obeyed at most."""
    if got.lost:  # RFC 9309, 2.3.1.2: may count as unavailable
        return _read(got, now, Status.NO_RULES, note=got.detail)
    if got.status is None or got.status >= 500 or got.status == TOO_MANY:
        return _unreachable(before, got, now)
    if not 200 <= got.status < 300:  # 4xx, 401 and 403 too: 2.3.1.3
        return _read(got, now, Status.NO_RULES, note=f"the server answered {got.status}")
    text, problem, cut = read_text(got.body, got.content_type)
    if problem:
        return _read(got, now, Status.NOT_TEXT, note=f"{problem}; everything is allowed")
    if not text.strip():
        return _read(got, now, Status.NO_RULES, note="it is empty")
    delay = Rules(text=text, token=token).crawl_delay
    notes = []
    if cut:
        notes.append(f"only its first {MAX_BYTES:,} bytes are read")
    if delay > max_delay:
        notes.append(f"it asks for {delay:,.0f} s between two requests; {max_delay:g} s are kept")
    return _read(got, now, Status.RULES, text, delay, "; ".join(notes))


def _read(
    got: Fetched, now: float, status: Status, text: str = "", delay: float = 0.0, note: str = ""
) -> RobotsState:
    age = MAX_AGE if got.max_age is None else min(MAX_AGE, max(MIN_AGE, got.max_age))
    return RobotsState(status, got.status, text, now, now + age, crawl_delay=delay, note=note)


def _unreachable(before: RobotsState, got: Fetched, now: float) -> RobotsState:
    """An earlier copy continues to count, however old. Without one, no page may be fetched until it
    can be read, or MAX_OUTAGE is over."""
    since = before.unreachable_since or now
    first = RETRY_WAIT if got.status is None and got.reason in SILENT else FIRST_WAIT
    wait = min(LONGEST_WAIT, now - since + first)  # doubles: 60 s, 120 s, 240 s
    wait = max(wait, min(got.retry_after, MAX_AGE))
    reason = got.reason or f"http_{got.status}"
    why = got.detail or f"the server answered {got.status}"
    if reason == "too_large":
        why = f"it is larger than {MAX_FILE:,} bytes"
    failed = before._replace(
        http_status=got.status,
        unreachable_since=since,
        next_try=now + wait,
        reason=reason,
        note=why,
    )
    if before.status in READ:
        return failed._replace(known_until=now + wait, note=f"{why}; the earlier file still counts")
    if now - since >= MAX_OUTAGE:
        return failed._replace(
            status=Status.GIVEN_UP,
            known_until=now + wait,
            note=f"{why}; unreachable for {MAX_OUTAGE / DAY:.0f} days: everything is allowed",
        )
    return failed._replace(status=Status.UNREACHABLE, known_until=0.0)
