"""FilePath: a spider argument that names a file of the nodes. Over the API and in forms it must be
below CRAWLFRAME_ARGUMENT_FILES, because who submits a task sees what the spider makes of it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

FORMAT = "file-path"  # in JSON schemas
FilePath = Annotated[str, Meta(extra_json_schema={"format": FORMAT})]
