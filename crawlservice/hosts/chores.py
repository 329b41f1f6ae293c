"""Chores of hosts: their orders, and which of them are held."""

from __future__ import annotations

from crawlframe.frontier import Frontier
from crawlservice.chores.chore import Calls, Chore
from crawlservice.hosts.held import record_held
from crawlservice.hosts.orders import keep


def look_after(frontier: Frontier) -> None:
    """Ends orders whose time is over, sends Redis what it has missed, and records which hosts are
    held. Raises redis.RedisError, FrontierError and django.db.Error."""
    keep(frontier)
    record_held(frontier)


CHORES = (Chore("hosts", lambda steward: Calls(lambda: look_after(steward.frontier))),)
