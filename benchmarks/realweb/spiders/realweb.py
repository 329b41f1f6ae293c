"""spiders/site.py as fast as the server: it is ours, and wget asks it without a pause, too."""

from __future__ import annotations

from typing import Any, ClassVar

from spiders.site import SiteSpider


class RealWeb(SiteSpider):
    """Every page of a site that may be asked at full speed, as many as it has."""

    name = "realweb"
    settings: ClassVar[dict[str, Any]] = {"delay": 0, "page_limit": 0, "robots": False}
