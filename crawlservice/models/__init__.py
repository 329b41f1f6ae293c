"""The source of truth: tasks with labels and schedules, the ledger and its items, logs, hosts, the
cluster, people, the outbox, the robots.txt of origins, recipes, the quality of runs, and our
identity."""

from crawlservice.models.budget import Spent, Trap
from crawlservice.models.cluster import Era, Generation, Installation, Sample
from crawlservice.models.host import HELD, HOST, NOTE, ORDERED, UNSENT, Host
from crawlservice.models.identity import BotKey, HostCredential
from crawlservice.models.label import LABEL_NAME, LABEL_VALUE, LABELS, Label
from crawlservice.models.ledger import MODEL, VERSION, Item, Page, RowChange, StartPart, Stat
from crawlservice.models.log import LogLine, TaskLog
from crawlservice.models.outbox import Delivery, Event, Webhook
from crawlservice.models.people import Action, SetupLink, Submission, Token
from crawlservice.models.quality import Finding, Profile
from crawlservice.models.recipe import Recipe, RecipeVersion
from crawlservice.models.robots import RobotsFile
from crawlservice.models.task import SPIDER, Run, Schedule, Task

__all__ = (
    "HELD", "HOST", "LABELS", "LABEL_NAME", "LABEL_VALUE", "MODEL", "NOTE", "ORDERED", "SPIDER",
    "UNSENT", "VERSION", "Action", "BotKey", "Delivery", "Era", "Event", "Finding", "Generation",
    "Host", "HostCredential", "Installation", "Item", "Label", "LogLine", "Page", "Profile",
    "Recipe", "RecipeVersion", "RobotsFile", "RowChange", "Run", "Sample", "Schedule", "SetupLink",
    "Spent", "StartPart", "Stat", "Submission", "Task", "TaskLog", "Token", "Trap", "Webhook",
)  # fmt: skip
