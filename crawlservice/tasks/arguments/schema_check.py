"""The check of arguments against the JSON schema of a spider; jsonschema is imported with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from os.path import normpath
from pathlib import PurePath
from typing import Any

from django.conf import settings
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError, best_match

from crawlframe.base.file_path import FORMAT
from crawlframe.base.urls import normalise
from crawlframe.errors import BadRequest

_formats = FormatChecker(formats=["uuid", "regex"])


def _check_format(name: str, read: Callable[[str], object]) -> None:
    """Declares text to be of this format if ``read`` does not raise."""

    def is_read(value: object) -> bool:
        if isinstance(value, str):
            read(value)
        return True

    _formats.checks(name, (ValueError, BadRequest))(is_read)


_check_format("date", date.fromisoformat)
_check_format("date-time", datetime.fromisoformat)
_check_format("time", time.fromisoformat)
_check_format("uri", normalise)
_any_file = FormatChecker(formats=[])
_any_file.checkers = {**_formats.checkers}
_check_format(FORMAT, lambda path: PurePath(normpath(path)).relative_to(settings.ARGUMENT_FILES))


def first_error(
    schema: dict[str, Any], values: dict[str, Any], *, any_file: bool = False
) -> ValidationError | None:
    """Returns the most telling error of ``values``; None if they fit. Unless ``any_file``, files
    must be below CRAWLFRAME_ARGUMENT_FILES."""
    formats = _any_file if any_file else _formats
    error: ValidationError | None = best_match(
        Draft202012Validator(schema, format_checker=formats).iter_errors(values)
    )
    return error
