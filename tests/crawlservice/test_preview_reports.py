"""Reports of previews are kept beside their versions, bounded in number and size."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client

from crawlframe.base.exact_json import dumps
from crawlframe.preview.comparison import Place, SpiderComparison, Tried
from crawlframe.preview.rules import PreviewRules
from crawlservice.models import PreviewReport
from crawlservice.preview import reports
from crawlservice.preview.reports import keep, report_on
from crawlservice.preview.result import LINES, ROWS, Preview, bounded
from tests.crawlservice.programs import person, program

pytestmark = [pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite")]
SHOP = "https://shop.example/items"


def tried(**item: object) -> Tried:
    return Tried(dumps({"end": "done", "items": [item]}))


def compared(**fields: tuple[object, object]) -> Preview:
    """The preview of one page with these values, before and after."""
    found = SpiderComparison("shop")
    before, after = (tried(**{name: one[n] for name, one in fields.items()}) for n in (0, 1))
    assert found.take(Place(f"{SHOP}/4711", 3), before, after, before)
    return Preview("1f00", "2a00", [found], regressions=PreviewRules().regressions(found))


def test_errors_come_first() -> None:
    found = bounded(compared(colour=("red", "blue"), price=("12.00", None), name=("a", "a")))
    assert [(row["part"], row["fails"]) for row in found["rows"]] == [
        ("price", True),
        ("colour", False),
    ]
    row = found["rows"][0]
    assert (row["unchanged"], row["gained"], row["lost"], row["changed"]) == (0, 0, 1, 0)
    example = {"kind": "lost", "before": "12.00", "after": "null", "kept": 3, "url": f"{SHOP}/4711"}
    assert row["examples"] == [example]


def test_a_report_is_bounded() -> None:
    wide = "\U0001f980" * 9_000
    fields = {f"{n}{wide}": (wide, f"{n}{wide}") for n in range(400)}
    found = bounded(compared(**fields))
    assert len(found["rows"]) == ROWS
    assert found["more"] == 400 - ROWS
    assert sum(len(row["examples"]) for row in found["rows"]) == LINES
    assert len(json.dumps(found, ensure_ascii=False).encode()) < 300_000


def test_the_newest_report_about_two_versions_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "KEPT_REPORTS", 2)
    first = keep(compared(price=("12.00", None)), "alpha")
    second = keep(compared(price=("12.00", None)), "beta")
    assert report_on("2a00") == second != first
    assert PreviewReport.objects.count() == 1
    for version in ("3c00", "4d00"):
        found = compared(price=("12.00", None))
        found.after = version
        keep(found, "alpha")
    assert [row.version for row in PreviewReport.objects.all()] == ["4d00", "3c00"]


def test_the_page_of_the_node_has_the_difference(
    join: Callable[..., int], as_role: Callable[[str], Client]
) -> None:
    keep(compared(price=("<b>12.00", None)), "alpha")
    code = {"version": "1f00", "state": "refused", "candidate": "2a00", "asks": True}
    node = join("alpha", **code, problem="shop.price: lost 1 of 1")
    page = as_role("viewer").get(f"/admin/crawlservice/generation/{node}/change/").content.decode()
    assert "<del>&lt;b&gt;12.00</del>" in page
    assert "/admin/crawlservice/keptpage/3/change/" in page


def test_the_page_of_a_report(join: Callable[..., int], as_role: Callable[[str], Client]) -> None:
    row = keep(compared(price=("12.00", None)), "alpha")
    place = f"/admin/crawlservice/previewreport/{row.pk}/change/"
    client = as_role("operator")
    page = client.get(place).content.decode()
    assert "<del>12.00</del>" in page
    assert "1 error by the rules" in page
    assert "cf-accept" not in page  # no node asks
    join("alpha", version="1f00", state="refused", candidate="2a00", asks=True)
    page = client.get(place).content.decode()
    assert "cf-accept" in page
    assert "cf-refuse" in page
    listed = client.get("/admin/crawlservice/previewreport/").content.decode()
    assert "2a00" in listed


@pytest.mark.forks
def test_the_api() -> None:
    row = keep(compared(price=("12.00", None)), "alpha")
    caller = program(person("viewer"), "read")
    (listed,) = caller.get("previews").json()["previews"]
    assert (listed["version"], listed["errors"], "report" in listed) == ("2a00", 1, False)
    assert caller.get("previews?version=2a00").json()["previews"] == [listed]
    assert caller.get("previews?version=9f00").json()["previews"] == []
    shown = caller.get(f"previews/{row.pk}").json()
    assert shown["report"]["rows"][0]["lost"] == 1
    assert caller.get(f"previews/{row.pk + 1}").status_code == 404
