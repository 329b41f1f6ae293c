"""Demo site: a house-listing site computed from a few numbers, to crawl and to test with."""

from crawlservice.demosite.child import DemoServer
from crawlservice.demosite.errors import DemoSiteError
from crawlservice.demosite.pages import Pages, SitePage
from crawlservice.demosite.server import serve
from crawlservice.demosite.site import DISTRICTS, Site

__all__ = ["DISTRICTS", "DemoServer", "DemoSiteError", "Pages", "Site", "SitePage", "serve"]
