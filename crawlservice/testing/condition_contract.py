"""The contract of alert conditions, as tests to run against a condition of your own:

    from crawlservice.testing.condition_contract import ConditionContract

    class TestMine(ConditionContract):
        condition = CONDITION

        def arrange(self):
            ...  # make the condition be there; return the argument of its ``find``

Run them with pytest, where ``DJANGO_SETTINGS_MODULE=crawlservice.settings`` and a database are set
up as ``arrange`` needs them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils import translation

from crawlservice.alerts.condition import Alarm, Condition, ServiceView, Unknown
from crawlservice.models.alert import KIND, SUBJECT

__all__ = ["ConditionContract"]


class ConditionContract:
    """Override both."""

    condition: Condition

    def arrange(self) -> ServiceView:
        raise NotImplementedError

    def _found(self) -> list[Alarm]:
        found = [*self.condition.find(self.arrange())]
        rows = self.condition.rows
        assert rows is None or any(some.exists() for some in rows()), "its rows must be there"
        assert all(isinstance(one, Alarm | Unknown) for one in found)
        findings = [one for one in found if isinstance(one, Alarm)]
        assert findings, "arrange must make the condition be there"
        return findings

    def test_its_name_fits_a_column_and_an_address(self) -> None:
        assert re.fullmatch(rf"[a-z][a-z0-9_]{{0,{KIND - 1}}}", self.condition.name)
        assert str(self.condition.title)

    def test_its_threshold_is_one_that_a_rule_may_have(self) -> None:
        threshold = self.condition.threshold
        if threshold is not None:
            assert threshold.least <= threshold.usual <= threshold.most
            assert str(threshold.unit)

    def test_findings_name_their_condition_and_a_subject_once(self) -> None:
        found = self._found()
        assert {one.kind for one in found} == {self.condition.name}
        assert len({one.subject for one in found}) == len(found)
        assert all(len(one.subject) <= SUBJECT for one in found)

    def test_findings_have_a_value_if_there_is_a_threshold(self) -> None:
        for one in self._found():
            assert (one.value is None) == (self.condition.threshold is None)

    def test_times_have_a_zone(self) -> None:
        assert all(one.since.tzinfo is not None for one in self._found())

    def test_sentence_and_link_are_made_of_facts_that_were_json(self) -> None:
        for facts in self._facts():
            for language, _name in settings.LANGUAGES:
                with translation.override(language):
                    text = self.condition.sentence(facts)
                assert len(text.splitlines()) == 1
                assert "{" not in text, "a placeholder is left"
            link = self.condition.link(facts)
            assert link == "" or link.startswith("/")

    def test_facts_of_another_release_are_no_defect(self) -> None:
        for make in (self.condition.sentence, self.condition.link):
            for facts in ({}, *self._each_without_one()):
                try:
                    assert isinstance(make(facts), str)
                except (KeyError, TypeError, ValueError):
                    pass  # it is answered with the title, and the page of the alert

    def _facts(self) -> list[Mapping[str, Any]]:
        return [json.loads(json.dumps(one.facts)) for one in self._found()]

    def _each_without_one(self) -> list[dict[str, Any]]:
        return [
            {name: value for name, value in facts.items() if name != left_out}
            for facts in self._facts()
            for left_out in facts
        ]
