"""FilePath: a spider argument that names a file of the nodes."""

from typing import Annotated

from msgspec import Meta

FORMAT = "file-path"  # in JSON schemas
FilePath = Annotated[str, Meta(extra_json_schema={"format": FORMAT})]
