"""Spiders: the class that authors subclass, its settings and their checks."""

from crawlframe.spider.spider import Spider as Spider
