"""The contract of export targets, as tests to run against a target of your own:

    from crawlservice.testing.target_contract import TargetContract

    class TestMine(TargetContract):
        kind = TARGET

        def make(self):
            return MyTarget(kind="mine", url="…")  # an empty target, which can be written

        def rows(self):
            return [...]  # the records that are there now, with their fields

Run them with pytest, where ``DJANGO_SETTINGS_MODULE=crawlservice.settings``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from crawlframe.base.secret import MASK
from crawlservice.exports.changes import TARGET, shown_target
from crawlservice.exports.source import KEY, ExportRow
from crawlservice.exports.target import BatchName, ExportBatch, Target, TargetKind, Writer

__all__ = ["TargetContract"]

INSTALLATION = "6f1c2a52-6f7e-4b44-9c58-0d3f6f1f0a11"
MOMENT = datetime(2026, 11, 1, tzinfo=UTC)


class TargetContract:
    """Override ``kind``, ``make`` and ``rows``. ``exactly_once`` is False if the target does not
    know by itself a batch that it has got already."""

    kind: TargetKind
    exactly_once = True

    def make(self) -> Target:
        raise NotImplementedError

    def rows(self) -> Sequence[dict[str, Any]]:
        raise NotImplementedError

    # -- its definition ---------------------------------------------------------------------------

    def test_the_definition_has_the_name_of_its_kind(self) -> None:
        target = self.make()
        assert isinstance(target, self.kind.definition)
        assert target.kind == self.kind.name
        assert TARGET.validate_python(target.model_dump()) == target, "the kind is not installed"
        target.check()

    def test_what_is_shown_has_no_secret(self) -> None:
        target = self.make()
        for name in target.SECRETS:
            if name != "url":
                target = target.model_copy(update={name: "geheim-geheim"})
        shown = shown_target(target)
        assert "geheim-geheim" not in str(shown)
        assert all(shown[name] == MASK for name in target.SECRETS if name != "url")
        place = self.kind.definition.place(shown)
        assert len(place.splitlines()) == 1

    def test_secrets_are_entered_for_a_destination(self) -> None:
        target = self.make()
        assert all(isinstance(part, str) for part in target.destination)
        assert target.SIGNS_WITH in ("", *target.SECRETS)

    # -- written rows -----------------------------------------------------------------------------

    def test_a_batch_is_there_when_send_returns(self) -> None:
        with self._writer() as writer:
            assert self._send(writer, 1, 3), "send returns the place, to be shown"
            assert self._numbers() == [1, 2, 3]
            self._send(writer, 4, 5)
        assert self._numbers() == [1, 2, 3, 4, 5]

    def test_values_of_all_kinds_arrive(self) -> None:
        with self._writer() as writer:
            self._send(writer, 1, 1, text="é\n\"'", number=1.5, whole=2**40, none=None, flag=True)
        (row,) = self.rows()
        assert str(row["text"]) == "é\n\"'"
        assert float(row["number"]) == 1.5

    def test_an_attempt_that_is_repeated_adds_nothing(self) -> None:
        """Repeats an attempt by the same writer, and by the writer of a node that takes over."""
        for _ in range(2):
            with self._writer() as writer:
                self._send(writer, 1, 3)
                self._send(writer, 1, 3)
        expected = [1, 2, 3] if self.exactly_once else [1, 2, 3] * 4
        assert self._numbers() == sorted(expected)

    def test_a_test_leaves_no_row(self) -> None:
        with self._writer() as writer:
            with closing(ExportBatch({}, writer.limits.columns)) as empty:
                writer.test(BatchName("contract", 1, 0, 0, 0), empty)
            assert self._numbers() == []
            self._send(writer, 1, 1)
        assert self._numbers() == [1]

    def test_it_is_used_again_after_it_was_closed(self) -> None:
        with self._writer() as writer:
            self._send(writer, 1, 1)
            writer.close()
            writer.close()
            self._send(writer, 2, 2)
        assert self._numbers() == [1, 2]

    def test_it_limits_its_batches(self) -> None:
        with self._writer() as writer:
            assert writer.limits.rows > 0
            assert writer.limits.bytes > 0

    # -- helpers ----------------------------------------------------------------------------------

    @contextmanager
    def _writer(self) -> Iterator[Writer]:
        with closing(self.make().open(settings.CRAWLFRAME, INSTALLATION)) as writer:
            yield writer

    def _send(self, writer: Writer, first: int, last: int, **fields: Any) -> str:
        with closing(ExportBatch({}, writer.limits.columns)) as batch:
            for number in range(first, last + 1):
                batch.add(ExportRow(number, MOMENT, {KEY: f"row-{number}", "n": number, **fields}))
            return writer.send(BatchName("contract", 1, 1, first, last), batch)

    def _numbers(self) -> list[int]:
        return sorted(int(row["n"]) for row in self.rows())
