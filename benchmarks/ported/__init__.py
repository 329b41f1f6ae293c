"""Ported: one unmodified Scrapy project, by Scrapy and by a node, in pairs: CPU seconds a page."""
