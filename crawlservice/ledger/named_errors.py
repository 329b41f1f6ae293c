"""Named errors: errors of the engine in place of database errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from django.db import DataError, Error, IntegrityError
from django.db import connection as default_connection

from crawlframe.errors import ArchiveError
from crawlframe.run.ledger import LedgerAway, LedgerRefused
from crawlservice.connections.contained import exceeds_limit

C = TypeVar("C", bound=type)


@contextmanager
def named_errors(explain: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Turns Django's database errors into the engine's: away (try again) or refused (never).
    ``explain`` raises a more precise error for refused rows, if there is one."""
    try:
        yield
    except (DataError, IntegrityError, ValueError, TypeError, OverflowError) as error:
        # The last three: a value that the driver cannot represent.
        with named_errors():
            explain()
        raise LedgerRefused(" ".join(str(error).split())) from None
    except ArchiveError as error:
        raise LedgerAway(str(error)) from None
    except Error as error:  # includes a read-only server, and one whose tables are being changed
        default_connection.close()
        text = " ".join(str(error).split())
        if exceeds_limit(error):
            raise LedgerRefused(text) from None
        raise LedgerAway(text) from None


def with_named_errors(cls: C) -> C:
    """Every public method of the class raises them."""
    for name, member in [*vars(cls).items()]:
        if callable(member) and not name.startswith("_"):
            setattr(cls, name, named_errors()(member))
    return cls
