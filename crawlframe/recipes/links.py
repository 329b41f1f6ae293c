"""Links: which links of a page a rule follows."""

from __future__ import annotations

from crawlframe.recipes.patterns import find
from crawlframe.recipes.recipe import LinkRule
from crawlframe.response.response import Response

_ANCHORS = "descendant-or-self::a[@href] | descendant-or-self::area[@href]"


def links_of(response: Response, rule: LinkRule) -> list[str]:
    """The URLs, in the order of the page, each once."""
    if rule.restrict_css or rule.restrict_xpath:
        if response.kind != "html":
            return []
        parts = [response.css(expression) for expression in rule.restrict_css]
        parts += [response.xpath(expression) for expression in rule.restrict_xpath]
        anchors = [anchor for part in parts for anchor in part.xpath(_ANCHORS)]
        links = list(dict.fromkeys(one.url for one in response.follow_all(anchors)))
    else:
        links = response.links()
    return [link for link in links if allows(rule, link)]


def allows(rule: LinkRule, url: str) -> bool:
    """Whether the rule's patterns allow a URL."""
    if rule.allow and not any(any(find(pattern, [url])) for pattern in rule.allow):
        return False
    return not any(any(find(pattern, [url])) for pattern in rule.deny)
