"""Noise links, such as navigation, advertising, related articles and endless listings, and the ways
to tell them from the links that a page is about."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crawlframe.noise.density import Density
from crawlframe.noise.quarter import QuarterRule
from crawlframe.noise.report import LinkReport, NoiseFilter, judge
from crawlframe.noise.template import TemplateLinks

if TYPE_CHECKING:
    from crawlframe.noise.families import URLFamilies
    from crawlframe.noise.samples import NoiseFamilies

__all__ = [
    "Density",
    "LinkReport",
    "NoiseFamilies",
    "NoiseFilter",
    "QuarterRule",
    "TemplateLinks",
    "URLFamilies",
    "judge",
]

# They need rapidfuzz, of the extra [broad].
_LATER = {
    "NoiseFamilies": "crawlframe.noise.samples",
    "URLFamilies": "crawlframe.noise.families",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
