"""Definition: the fields of an export, the same in the API, the admin and the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Union

from pydantic import Field

from crawlframe.errors import CrawlframeError
from crawlservice.exports.addresses import BadExport
from crawlservice.exports.target import Target, TargetConfig, kinds
from crawlservice.models import EXPORT_NAME, LABEL_NAME, LABEL_VALUE, LABELS, SPIDER
from crawlservice.tasks import labels
from crawlservice.tasks.results.item_filter import read_filters

Name = Annotated[str, Field(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{EXPORT_NAME - 1}}}$")]
LabelName = Annotated[str, Field(pattern=rf"^[A-Za-z0-9._-]{{1,{LABEL_NAME}}}$")]
LabelValue = Annotated[str, Field(min_length=1, max_length=LABEL_VALUE)]

if TYPE_CHECKING:
    AnyTarget = Target
else:
    AnyTarget = Annotated[
        Union[tuple(kind.definition for kind in kinds().values())],  # noqa: UP007
        Field(discriminator="kind"),
    ]


def place_of(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The keys of a mistake that pydantic found, without the kind of the target among them."""
    return (loc[0], *loc[2:]) if loc[:1] == ("target",) else loc


class Definition(TargetConfig):
    """One continuous export."""

    name: Name
    what: Literal["items", "pages"] = "items"
    spider: Annotated[str, Field(max_length=SPIDER, pattern=r"^[^\x00]*$")] = ""
    task: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    labels: Annotated[dict[LabelName, LabelValue], Field(max_length=LABELS)] = {}
    usage: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = Field(
        "", description="such as `ai-train!=no`"
    )
    fields: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]],
        Field(max_length=500),
    ] = Field([], description="only these; empty: all")
    target: AnyTarget

    def check(self) -> None:
        """Checks rules that types cannot express. Raises BadExport."""
        try:
            labels.check(self.labels)
        except CrawlframeError as error:
            raise BadExport("labels", str(error)) from None
        try:
            read_filters(self.usage or None)
        except CrawlframeError as error:
            raise BadExport("usage", str(error)) from None
        if len({*self.fields}) != len(self.fields):
            raise BadExport("fields", "a field is named twice")
        self.target.check()
