"""Changes: exports are added, changed, paused, resumed, started again and deleted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from django.db import IntegrityError, transaction
from django.db.models import F
from pydantic import TypeAdapter

from crawlframe.base.secret import MASK
from crawlframe.errors import CrawlframeError
from crawlservice.exports.addresses import (
    HTTP,
    BadExport,
    is_masked,
    with_secrets_of,
    without_secrets,
)
from crawlservice.exports.definition import AnyTarget, Definition
from crawlservice.exports.source import start_of
from crawlservice.exports.target import Target, kinds
from crawlservice.models import Export
from crawlservice.security.sealing import seal, unseal
from crawlservice.webhooks.deliveries import new_secret

TARGET: TypeAdapter[Target] = TypeAdapter(AnyTarget)


class FromFile(CrawlframeError):
    """The export is defined in a file, and only changed there."""


def add(definition: Definition, begin: str = "", **origin: Any) -> tuple[Export, str]:
    """Returns the export, and the secret that was made for it, to be shown once; "": none.
    ``begin``: see starting.FORM. Raises BadExport."""
    definition.check()
    start = start_of(definition.what, begin)
    target, made = _with_secret(definition.target)
    row = Export(position=start.position, since=start.since, **origin)
    _set(row, definition, target)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        raise BadExport("name", f"there is an export {row.name} already") from None
    return row, made


def change(row: Export, definition: Definition) -> bool:
    """Returns whether it differs. Masked secrets are kept if the target is the same. Raises
    BadExport and SealError."""
    if definition.name != row.name:
        raise BadExport("name", f"the name stays {row.name}; add another export instead")
    if definition.what != row.what:
        raise BadExport("what", f"it exports {row.what}; add another export instead")
    target = kept_target(row, definition.target)
    definition.model_copy(update={"target": target}).check()
    before = _defined(row), target_of(row)
    target, _ = _with_secret(target)
    if before == (_facts(definition), target):
        return False
    _set(row, definition, target)
    # Only these: the leading node writes the others at the same time.
    columns = (*_facts(definition), "target", "sealed")
    Export.objects.filter(pk=row.pk).update(
        **{name: getattr(row, name) for name in columns},
        changed=F("changed") + 1,
        next_at=None,
    )
    return True


def edit(row: Export, definition: Definition) -> bool:
    """As ``change``, by people. An export that the file no longer names is theirs from then on, and
    continues. Raises FromFile, BadExport and SealError."""
    with transaction.atomic():
        check_editable(Export.objects.select_for_update().get(pk=row.pk))
        theirs = Export.objects.filter(pk=row.pk, from_file=True)
        taken = theirs.update(from_file=False, listed=True)
        return change(row, definition) or bool(taken)


def check_editable(row: Export) -> None:
    """Raises FromFile."""
    if row.from_file and row.listed:
        raise FromFile(
            f"{row.name} is defined in exports.toml of the spiders; change it there (it can be "
            "paused, resumed and started again here)"
        )


def pause(row: Export) -> None:
    """Ends after the batch that is being sent."""
    Export.objects.filter(pk=row.pk).update(paused=True)


def resume(row: Export) -> None:
    """Continues an export from its cursor, also if it waits after a failure."""
    Export.objects.filter(pk=row.pk).update(paused=False, next_at=None)


def restart(row: Export, begin: str) -> None:
    """Exports again from a point on, as another run. Raises BadExport."""
    start = start_of(row.what, begin)
    Export.objects.filter(pk=row.pk).update(
        run=F("run") + 1, position=start.position, since=start.since, planned=None,
        rows=0, batches=0, attempts=0, next_at=None, problem="", problem_since=None,
    )  # fmt: skip


def delete(row: Export) -> None:
    """Deletes an export; written files and rows stay. Raises FromFile."""
    check_editable(row)
    row.delete()


def target_of(row: Export) -> Target:
    """The target with its secrets. Raises SealError, and BadExport if its kind is not installed."""
    if row.target["kind"] not in kinds():
        raise BadExport(
            "target.kind",
            f"no package here adds the target {row.target['kind']}; install it on the web and all "
            f"nodes (there are {', '.join(kinds())})",
        )
    secrets = json.loads(unseal(row.sealed) or "{}")
    return TARGET.validate_python({**row.target, **secrets})


def secrets_of(target: Target) -> Iterator[str]:
    """The texts that no message may have; texts of fewer than 4 characters say nothing."""
    for name in target.SECRETS:
        text = getattr(target, name)
        if name == "url":
            parts = urlsplit(text)
            plain = [parts.password or ""]
            if parts.scheme in HTTP:
                plain += [parts.query, *re.split("[&=]", parts.query)]
            found = {form for one in plain for form in (one, unquote(one))}
        else:
            found = {text}
        yield from (one for one in found if len(one) >= 4)


def shown_target(target: Target) -> dict[str, Any]:
    """The target without its secrets."""
    shown = target.model_dump()
    for name in target.SECRETS:
        if name == "url":
            shown[name] = without_secrets(shown[name])
        elif shown[name]:
            shown[name] = MASK
    return shown


def _with_secret(target: Target) -> tuple[Target, str]:
    """Whoever sends to an address signs. Raises BadExport for a mask that stands for nothing."""
    for name in target.SECRETS:
        text = getattr(target, name)
        if text == MASK or (name == "url" and is_masked(text)):
            raise BadExport(f"target.{name}", "this is a mask; enter the password or key itself")
    if target.SIGNS_WITH and not getattr(target, target.SIGNS_WITH):
        made = new_secret()
        return target.model_copy(update={target.SIGNS_WITH: made}), made
    return target, ""


def kept_target(row: Export, target: Target) -> Target:
    """The target with the stored secrets in place of masks. Raises BadExport, also where a secret
    would go to another place than it was entered for."""
    known = target_of(row)
    kept: dict[str, Any] = {}
    for name in target.SECRETS:
        text = getattr(target, name)
        if name == "url":
            if is_masked(text):
                whole = with_secrets_of(text, getattr(known, "url", ""))
                if whole is None:
                    raise BadExport(
                        "target.url",
                        "user, host or options changed: enter the password again, and the query",
                    )
                kept[name] = whole
        elif text == MASK or (name == target.SIGNS_WITH and not text):
            same = name == target.SIGNS_WITH or known.destination == target.destination
            if known.kind != target.kind or not same:
                raise BadExport(f"target.{name}", "the target changed: enter it again")
            kept[name] = getattr(known, name)
    return target.model_copy(update=kept)


def _facts(definition: Definition) -> dict[str, Any]:
    """The fields of a definition that can change."""
    return definition.model_dump(include={"spider", "task", "labels", "usage", "fields"})


def _defined(row: Export) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("spider", "task", "labels", "usage", "fields")}


def _set(row: Export, definition: Definition, target: Target) -> None:
    facts: Mapping[str, Any] = _facts(definition)
    for name, value in facts.items():
        setattr(row, name, value)
    row.name, row.what = definition.name, definition.what
    row.target = shown_target(target)
    dumped = target.model_dump()
    secrets = {name: dumped[name] for name in target.SECRETS if dumped[name] != row.target[name]}
    row.sealed = seal(json.dumps(secrets)) if secrets else ""
