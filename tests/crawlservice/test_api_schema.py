"""The API conforms to its own schema, whatever it receives: schemathesis generates requests from
it.

EXAMPLES=500 generates more of them, different ones each time."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.wsgi import get_wsgi_application
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from crawlservice.accounts import tokens
from crawlservice.api import events
from crawlservice.exports import changes
from crawlservice.exports.definition import Definition
from crawlservice.models import (
    Alert,
    AlertMessage,
    AlertRule,
    AlertTarget,
    Era,
    Host,
    Page,
    Schedule,
    Task,
    Watch,
)

EXAMPLES = int(os.environ.get("EXAMPLES", "0"))
CHECKED = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@pytest.fixture
def openapi(
    ended_task: Task,
    add_page: Callable[..., Page],
    join: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """The schema of the API, with data of every kind in the database."""
    monkeypatch.setattr(events, "STREAM_SECONDS", 0.0)
    join("alpha", version="1f00c0ffee00", state="live")
    Era.objects.create(number=1, reason="the first")
    Schedule.objects.create(name="night", spider="shop", every=60)
    Watch.objects.create(spider="shop")
    Host.objects.create(name="shop.example", statuses={"200": 3})
    add_page(ended_task, b"c", items=[{"n": 3}])
    now = timezone.now()
    Alert.objects.create(kind="task_failed", subject="shop", severity=3, since=now)
    target = AlertTarget.objects.create(name="ops", kind="mail", shown="ops@example.com")
    AlertRule.objects.create(name="all").targets.add(target)
    AlertMessage.objects.create(target=target, kind="test", severity=1, title="t", text="t")
    files = {"kind": "files", "url": "out"}
    changes.add(Definition.model_validate({"name": "houses", "target": files}))
    return schemathesis.openapi.from_wsgi(
        "/api/v1/openapi.json", get_wsgi_application(), headers=known()
    )


def known() -> dict[str, str]:
    """Headers of a caller with all rights."""
    _, secret = tokens.make(
        User.objects.get_or_create(username="root", is_superuser=True)[0], "test", "operate"
    )
    return {"Authorization": f"Bearer {secret}", "Host": "localhost"}


@pytest.mark.parametrize("examples", [2, pytest.param(12, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", GenerationMode)
def test_whatever_is_sent_the_answer_is_one_of_the_schema(
    openapi: Any, mode: GenerationMode, examples: int
) -> None:
    headers = known()
    tried = set()
    for found in openapi.get_all_operations():
        operation = found.ok()
        tried.add(operation.label)
        if (
            operation.label.endswith("/retry")
            and find_spec("crawlservice.tasks.bulk_retry") is None
        ):
            continue

        @settings(
            max_examples=EXAMPLES or examples,
            derandomize=not EXAMPLES,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Case) -> None:
            place = case.path_parameters
            for name in ("task_id", "alert_id", "rule_id", "target_id", "message_id"):
                if mode.is_positive and place.get(name, 1) % 2 == 0:
                    place[name] = 1  # that is there
            if (
                mode.is_positive
                and len(place.get("name", "")) % 2 == 0
                and "/exports/" in case.path
            ):
                place["name"] = "houses"
            case.call_and_validate(checks=CHECKED, headers=headers)

        send()
    assert len(tried) == 111, tried
