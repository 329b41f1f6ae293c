"""A node crawls a site, rules of aliases are learned from it, and it crawls again with them."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import psutil
import pytest
from django.core.management import call_command
from django.test import override_settings

from crawlservice.models import AliasRule, LogLine, Stat
from tests.aliases.site import Page, Site, served
from tests.aliases.trial import HERE
from tests.conftest import Running
from tests.process.conftest import Look, Submit

pytestmark = pytest.mark.process


def pages_of(site: Site) -> set[Page | None]:
    return {site.page_of(target) for target in site.fetched} - {None}  # robots.txt


def test_a_crawl_with_rules_fetches_each_page_once(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
) -> None:
    site = Site(80)
    with served(site) as origin, override_settings(CRAWLFRAME=HERE):
        node = start_manage("runcrawler", "--node", "one", "--workers", 2, "--concurrency", 8)
        first = submit("learned", url=f"{origin}/")
        look.wait(first)
        before = pages_of(site)
        targets = len(site.fetched)
        call_command("alias", "learn", str(first), "--delay", "0", stdout=StringIO())
        assert AliasRule.objects.filter(state="verified").count() >= 4
        site.fetched.clear()

        second = submit("aliased", url=f"{origin}/")
        look.wait(second, lambda task: len(site.fetched) > 10)
        psutil.Process(node.process.pid).children()[0].kill()  # the crawl continues with the rules
        AliasRule.objects.update(state="revoked")
        look.wait(second)
        assert pages_of(site) == before, "no page is lost"
        aliases = targets - len(before)
        assert targets - len(site.fetched) >= 0.85 * aliases
        links = Stat.objects.get(task=second, name="unfollowed/alias").value
        assert links >= targets - len(site.fetched)
        assert look.frontier.audit() == []
        assert node.stop() == 0
        said = "\n".join(LogLine.objects.filter(task=second).values_list("text", flat=True))
        assert "is not fetched: it is" in said
