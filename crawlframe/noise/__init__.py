"""Noise links, such as navigation, advertising, related articles and endless listings, and the ways
to tell them from the links that a page is about."""

from crawlframe.noise.density import Density, QuarterRule
from crawlframe.noise.families import URLFamilies
from crawlframe.noise.report import LinkReport, NoiseFilter, judge
from crawlframe.noise.samples import NoiseFamilies
from crawlframe.noise.template import TemplateLinks

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
