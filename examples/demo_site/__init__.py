"""Demo site: a house-listing site computed from a few numbers, to crawl and to test with."""

from examples.demo_site.child import DemoServer
from examples.demo_site.errors import DemoSiteError
from examples.demo_site.pages import Pages, SitePage
from examples.demo_site.server import serve
from examples.demo_site.site import DISTRICTS, Site

__all__ = ["DISTRICTS", "DemoServer", "DemoSiteError", "Pages", "Site", "SitePage", "serve"]
