"""The source of truth: tasks and schedules, the ledger and its items, hosts, the cluster, people,
and the outbox."""

from crawlservice.models.cluster import Era, Generation, Installation, Sample
from crawlservice.models.host import HELD, HOST, NOTE, ORDERED, UNSENT, Host
from crawlservice.models.ledger import VERSION, Item, Page, Stat
from crawlservice.models.outbox import Delivery, Event, Webhook
from crawlservice.models.people import Action, SetupLink, Submission, Token
from crawlservice.models.task import SPIDER, Run, Schedule, Task

__all__ = (
    "HELD", "HOST", "NOTE", "ORDERED", "SPIDER", "UNSENT", "VERSION", "Action", "Delivery", "Era",
    "Event", "Generation", "Host", "Installation", "Item", "Page", "Run", "Sample", "Schedule",
    "SetupLink", "Stat", "Submission", "Task", "Token", "Webhook",
)  # fmt: skip
