"""Admin pages of hosts: state, orders, robots.txt and proxies."""

from crawlservice.admin.hosts import hosts, proxies, robots

__all__ = ["hosts", "proxies", "robots"]
